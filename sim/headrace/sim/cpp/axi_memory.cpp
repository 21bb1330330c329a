#include "axi_memory.h"

#include <algorithm>

namespace headrace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bus words are copied as bytes");

AxiMemory::AxiMemory(uint8_t* data, uint64_t base, uint64_t bytes, unsigned bus_bytes)
    : map_{data, base, bytes}, bus_bytes_{bus_bytes}, checker_{map_, options_, bus_bytes} {
    configure();
}

bool AxiMemory::set(const std::string& option, double value) {
    if (option.rfind("dram_", 0) == 0) {
        return dram_.set(option.substr(5), static_cast<uint64_t>(value));
    }
    if (!options_.set(option, value)) return false;
    configure();
    return true;
}

void AxiMemory::configure() {
    Stalls* channels[] = {&ar_stalls_, &r_stalls_, &aw_stalls_, &w_stalls_, &b_stalls_};
    uint64_t channel = 0;
    for (Stalls* stalls : channels) {
        stalls->configure(options_.stall_seed * 8 + channel++, options_.stall_probability);
    }
    order_.reseed(options_.stall_seed * 8 + channel);
    read_budget_.configure(options_.bandwidth);
    write_budget_.configure(options_.bandwidth);
}

void AxiMemory::reset_statistics() {
    statistics_ = {};
    dram_.controller().statistics = {};
    statistics_.read.outstanding = statistics_.read.max_outstanding = checker_.reads();
    statistics_.write.outstanding = statistics_.write.max_outstanding = checker_.writes();
}

std::string AxiMemory::report() const {
    std::string text = statistics_.json();
    if (dram_.enabled()) {
        text.pop_back();
        text += ", \"dram\": " + dram_.controller().statistics.json() + "}";
    }
    return text;
}

void AxiMemory::forget() {
    out_ = {};
    if (dram_.enabled()) dram_.reset();
    reads_.clear();
    writes_.clear();
    unaccepted_ = 0;
    inside_burst_ = false;
    read_budget_.refill();
    write_budget_.refill();
}

const AxiOutputs& AxiMemory::tick(const AxiInputs& in) {
    checker_.check(in, out_, cycle_);
    cycle_++;
    if (in.reset || !violation().empty()) {
        if (in.reset) configure();  // a run after a reset repeats the run before it
        forget();
        return out_;
    }
    statistics_.cycles++;
    take_read_data(in);
    take_read_address(in);
    take_write_response(in);
    take_write_address(in);
    take_write_data(in);
    read_budget_.earn();
    write_budget_.earn();
    if (dram_.enabled()) dram_.tick();
    offer_read_data();
    offer_write_response();
    open_ready();
    statistics_.read.outstanding = checker_.reads();
    statistics_.write.outstanding = checker_.writes();
    return out_;
}

AxiMemory::Burst AxiMemory::start(const AxiAddress& address) {
    Burst burst{address.addr, address.id, address.beats(), 0, 0, true, 0, {}, {}};
    if (!spare_.empty()) {
        burst.data = std::move(spare_.back());
        spare_.pop_back();
    }
    burst.data.resize(size_t{burst.beats} * bus_bytes_);
    return burst;
}

// Whether the memory may answer a burst now.
bool AxiMemory::answerable(const Burst& burst, bool write) {
    if (burst.due > cycle_) return false;
    if (!write) return arrived(burst);
    return burst.accepted && burst.taken == burst.beats &&
           (!dram_.enabled() || dram_.written(burst.ticket));
}

// Whether the next beat of a read has come from the DRAM, if there is one.
bool AxiMemory::arrived(const Burst& burst) {
    return !dram_.enabled() ||
           dram_.arrived(burst.ticket, uint64_t{burst.taken + 1} * bus_bytes_);
}

// The burst to answer next: the oldest, or any that is the oldest of its ID.
size_t AxiMemory::choose(const std::deque<Burst>& bursts, bool write) {
    if (bursts.empty()) return kNoBurst;
    if (options_.reorder == kInOrder) return answerable(bursts.front(), write) ? 0 : kNoBurst;
    size_t oldest[kClasses];
    unsigned count = 0, seen = 0;
    for (size_t index = 0; index < bursts.size(); index++) {
        const unsigned bit = 1u << (bursts[index].id % kClasses);
        if (seen & bit) continue;
        seen |= bit;
        if (answerable(bursts[index], write)) oldest[count++] = index;
    }
    return count == 0 ? kNoBurst : oldest[order_.next() % count];
}

void AxiMemory::open_ready() {
    out_.arready = ar_stalls_.open() && reads_.size() < options_.depth;
    out_.awready = aw_stalls_.open() && writes_.size() < options_.depth + unaccepted_;
    const bool owed = std::any_of(writes_.begin(), writes_.end(), [](const Burst& burst) {
        return burst.taken < burst.beats;
    });
    out_.wready = owed && w_stalls_.open() && write_budget_.open() &&
                  (!dram_.enabled() || dram_.write_room());
}

}  // namespace headrace
