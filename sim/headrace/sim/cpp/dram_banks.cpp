#include "dram_banks.h"

namespace headrace {

namespace {

// Moves a limit back, never forward.
void delay(uint64_t& limit, uint64_t until) { limit = std::max(limit, until); }

}  // namespace

void DramBanks::reset(const DramOptions& options) {
    options_ = options;
    group_mask_ = (1u << options.group_bits) - 1;
    banks_.assign(size_t{1} << (options.group_bits + options.bank_bits), {});
    groups_.assign(size_t{1} << options.group_bits, {});
    any_ = {};
    std::fill(std::begin(window_), std::end(window_), 0);
    oldest_ = open_count_ = 0;
    row_bus_ = column_bus_ = 0;
}

void DramBanks::occupy(uint64_t& bus, uint64_t until) {
    bus = until;
    if (!options_.separate_buses) row_bus_ = column_bus_ = until;
}

uint64_t DramBanks::activate_at(unsigned bank) const {
    return std::max({banks_[bank].activate, groups_[bank & group_mask_].activate, any_.activate,
                     window_[oldest_], row_bus_});
}

uint64_t DramBanks::column_at(unsigned bank, bool write) const {
    const Group& group = groups_[bank & group_mask_];
    return std::max({banks_[bank].column, write ? group.write : group.read,
                     write ? any_.write : any_.read, column_bus_});
}

uint64_t DramBanks::precharge_all_at() const {
    uint64_t at = row_bus_;
    for (const Bank& bank : banks_) {
        if (bank.row != kClosed) delay(at, bank.precharge);
    }
    return at;
}

uint64_t DramBanks::refresh_at() const {
    uint64_t at = row_bus_;
    for (const Bank& bank : banks_) delay(at, bank.activate);
    return at;
}

void DramBanks::activate(unsigned bank, uint64_t row, uint64_t now) {
    Bank& opened = banks_[bank];
    opened.row = row;
    open_count_++;
    delay(opened.column, now + options_.rcd);
    delay(opened.precharge, now + options_.ras);
    delay(opened.activate, now + options_.rc);
    delay(groups_[bank & group_mask_].activate, now + options_.rrd_l);
    delay(any_.activate, now + options_.rrd_s);
    window_[oldest_] = now + options_.faw;
    oldest_ = (oldest_ + 1) % 4;
    occupy(row_bus_, now + options_.row_command);
}

void DramBanks::precharge(unsigned bank, uint64_t now) {
    banks_[bank].row = kClosed;
    open_count_--;
    delay(banks_[bank].activate, now + options_.rp);
    occupy(row_bus_, now + options_.precharge_command);
}

void DramBanks::precharge_all(uint64_t now) {
    for (Bank& bank : banks_) {
        bank.row = kClosed;
        delay(bank.activate, now + options_.rp_all);
    }
    open_count_ = 0;
    occupy(row_bus_, now + options_.precharge_command);
}

void DramBanks::column(unsigned bank, bool write, uint64_t now) {
    Group& group = groups_[bank & group_mask_];
    if (write) {
        const uint64_t end = now + options_.cwl + options_.burst;
        delay(group.write, now + options_.ccd_l);
        delay(any_.write, now + options_.ccd_s);
        delay(group.read, end + options_.wtr_l);
        delay(any_.read, end + options_.wtr_s);
        delay(banks_[bank].precharge, end + options_.wr);
    } else {
        delay(group.read, now + options_.ccd_l);
        delay(any_.read, now + options_.ccd_s);
        delay(any_.write, now + options_.cl + options_.burst + options_.turn - options_.cwl);
        delay(banks_[bank].precharge, now + options_.rtp);
    }
    occupy(column_bus_, now + options_.column_command);
}

void DramBanks::refresh(uint64_t now) {
    for (Bank& bank : banks_) delay(bank.activate, now + options_.rfc);
    occupy(row_bus_, now + options_.precharge_command);
}

}  // namespace headrace
