#include "dram_controller.h"

namespace headrace {

std::string DramStatistics::json() const {
    const std::pair<const char*, uint64_t> fields[] = {
        {"clocks", clocks}, {"reads", reads}, {"writes", writes}, {"hits", hits},
        {"misses", misses}, {"conflicts", conflicts}, {"activates", activates},
        {"precharges", precharges}, {"refreshes", refreshes}, {"turnarounds", turnarounds},
        {"forwarded", forwarded}, {"merged", merged}};
    std::string text;
    for (const auto& [name, value] : fields) {
        text += (text.empty() ? "{\"" : ", \"") + std::string{name} + "\": " +
                std::to_string(value);
    }
    return text + "}";
}

void DramController::reset(const DramOptions& options) {
    options_ = options;
    banks_.reset(options);
    reads_.clear();
    writes_.clear();
    now_ = next_try_ = last_read_ = last_column_ = 0;
    last_bank_ = 0;
    refresh_due_ = options.refi == 0 ? DramBanks::kNever : options.refi;
    writing_ = bus_writes_ = false;
}

bool DramController::holds(uint64_t access) const {
    for (const DramRequest& write : writes_) {
        if (write.access == access) return true;
    }
    return false;
}

void DramController::add(uint64_t access, uint64_t ticket, unsigned index, bool write) {
    const auto field = [](uint64_t value, uint64_t shift, uint64_t bits) {
        return (value >> shift) & ((uint64_t{1} << bits) - 1);
    };
    const uint64_t addr = access << options_.access_log2;
    const uint64_t row = addr >> options_.row_shift;
    const uint64_t low = options_.interleaved_bits;
    const uint64_t bits = options_.group_bits + options_.bank_bits;
    uint64_t bank = field(access, 0, low) |
                    field(addr, options_.group_shift, options_.group_bits - low) << low |
                    field(addr, options_.bank_shift, options_.bank_bits) << options_.group_bits;
    if (options_.fold && bits != 0) {
        // Streams at any distance, powers of two above all, meet in different banks.
        for (uint64_t rest = row; rest != 0; rest >>= bits) bank ^= field(rest, 0, bits);
    }
    (write ? writes_ : reads_)
        .push_back({access, ticket, index, static_cast<unsigned>(bank), row, now_,
                    DramRequest::kHit});
    next_try_ = 0;
}

void DramController::run(std::vector<Done>& done) {
    next_try_ = DramBanks::kNever;
    if (refresh()) return;
    choose_direction();
    std::vector<DramRequest>& queue = writing_ ? writes_ : reads_;
    if (queue.empty()) return;
    // Both may succeed in one clock where row and column commands have a bus each.
    const bool column = serve_columns(queue, done);
    const bool row = (!column || options_.separate_buses) && !queue.empty() && serve_rows(queue);
    if (column || row) next_try_ = now_ + 1;
}

// Whether a refresh is due: then it has precedence.
bool DramController::refresh() {
    if (now_ < refresh_due_) {
        next_try_ = std::min(next_try_, refresh_due_);
        return false;
    }
    if (banks_.open_count() != 0) {
        if (wait(banks_.precharge_all_at())) return true;
        banks_.precharge_all(now_);
        statistics.precharges++;
        record(DramCommand::kPrechargeAll, 0, 0);
        next_try_ = now_ + 1;
        return true;
    }
    if (wait(banks_.refresh_at())) return true;
    banks_.refresh(now_);
    statistics.refreshes++;
    record(DramCommand::kRefresh, 0, 0);
    refresh_due_ += options_.refi;
    next_try_ = now_ + 1;
    return true;
}

void DramController::choose_direction() {
    if (!reads_.empty()) last_read_ = now_;
    if (writing_) {
        const bool enough = writes_.size() <= options_.write_low && !reads_.empty();
        writing_ = !writes_.empty() && !enough;
    } else if (writes_.size() >= options_.write_high) {
        writing_ = true;
    } else if (!writes_.empty() && reads_.empty()) {
        writing_ = !wait(last_read_ + options_.idle);
    }
}

bool DramController::serve_columns(std::vector<DramRequest>& queue, std::vector<Done>& done) {
    const DramRequest& oldest = queue.front();
    // A request that has waited too long stops the younger ones that keep its bank at another row.
    const bool starving = now_ - oldest.since > options_.starve &&
                          banks_.open_row(oldest.bank) != oldest.row;
    hit_banks_ = 0;
    for (size_t index = 0; index < visible(queue); index++) {
        DramRequest& request = queue[index];
        if (banks_.open_row(request.bank) != request.row) continue;
        if (starving && request.bank == oldest.bank) continue;
        hit_banks_ |= uint64_t{1} << request.bank;
        if (locked(request.bank) || wait(banks_.column_at(request.bank, writing_))) continue;
        banks_.column(request.bank, writing_, now_);
        last_bank_ = request.bank;
        last_column_ = now_;
        record(writing_ ? DramCommand::kWrite : DramCommand::kRead, request.bank, request.row);
        (writing_ ? statistics.writes : statistics.reads)++;
        statistics.hits += request.state == DramRequest::kHit;
        statistics.misses += request.state == DramRequest::kMiss;
        statistics.conflicts += request.state == DramRequest::kConflict;
        statistics.turnarounds += writing_ != bus_writes_;
        bus_writes_ = writing_;
        if (!writing_) {
            done.push_back({request.ticket, request.index,
                            now_ + options_.cl + options_.burst + options_.controller});
        }
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(index));
        // Where a row command may follow in this clock it must know all wanted rows.
        for (; options_.separate_buses && index < queue.size(); index++) {
            const DramRequest& other = queue[index];
            if (banks_.open_row(other.bank) == other.row) hit_banks_ |= uint64_t{1} << other.bank;
        }
        return true;
    }
    return false;
}

bool DramController::serve_rows(std::vector<DramRequest>& queue) {
    uint64_t seen = 0;  // banks whose oldest request for another row was looked at
    for (size_t index = 0; index < visible(queue); index++) {
        DramRequest& request = queue[index];
        const unsigned bank = request.bank;
        const uint64_t bit = uint64_t{1} << bank;
        const uint64_t open = banks_.open_row(bank);
        if (open == request.row || (seen & bit) || locked(bank)) continue;
        seen |= bit;
        if (open == DramBanks::kClosed) {
            if (wait(banks_.activate_at(bank))) continue;
            banks_.activate(bank, request.row, now_);
            statistics.activates++;
            record(DramCommand::kActivate, bank, request.row);
            if (request.state == DramRequest::kHit) request.state = DramRequest::kMiss;
            return true;
        }
        if ((hit_banks_ & bit) || wait(banks_.precharge_at(bank))) continue;
        banks_.precharge(bank, now_);
        statistics.precharges++;
        record(DramCommand::kPrecharge, bank, open);
        request.state = DramRequest::kConflict;
        return true;
    }
    return false;
}

}  // namespace headrace
