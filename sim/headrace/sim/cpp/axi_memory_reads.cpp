// The read channels of AxiMemory.
#include <algorithm>
#include <cstring>

#include "axi_memory.h"

namespace headrace {

namespace {

constexpr uint8_t kGarbage = 0xBD;  // on RDATA where no data is

}  // namespace

void AxiMemory::take_read_address(const AxiInputs& in) {
    if (!in.ar.valid) return;
    if (!out_.arready) {
        statistics_.read.address_stalls++;
        ar_stalls_.wait();
        return;
    }
    ar_stalls_.transferred();
    Burst burst = start(in.ar);
    burst.due = cycle_ + options_.read_latency - 1;
    if (dram_.enabled()) {
        burst.due = cycle_;
        burst.ticket = dram_.read(burst.addr, burst.data.size());
    }
    for (unsigned beat = 0; beat < burst.beats; beat++) {
        const uint64_t addr = burst.addr + uint64_t{beat} * bus_bytes_;
        uint8_t* data = burst.data.data() + size_t{beat} * bus_bytes_;
        if (map_.response(addr, bus_bytes_, false) == kOkay) {
            std::memcpy(data, map_.at(addr), bus_bytes_);
        } else {
            std::memset(data, kGarbage, bus_bytes_);
        }
    }
    statistics_.read.bursts[burst.id]++;
    reads_.push_back(std::move(burst));
    auto& most = statistics_.read.max_outstanding;
    most = std::max(most, static_cast<unsigned>(reads_.size()));
}

void AxiMemory::take_read_data(const AxiInputs& in) {
    if (!out_.rvalid) return;
    if (!in.rready) {
        statistics_.read.stalls++;
        return;
    }
    Burst& burst = reads_[reading_];
    statistics_.read.beats++;
    statistics_.read.bytes[burst.id] += bus_bytes_;
    statistics_.read.errors += out_.rresp != kOkay;
    out_.rvalid = false;
    inside_burst_ = !out_.rlast;
    if (out_.rlast) {
        spare_.push_back(std::move(burst.data));
        reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(reading_));
    }
}

void AxiMemory::offer_read_data() {
    if (out_.rvalid) return;
    size_t next = kNoBurst;
    if (inside_burst_ && options_.reorder != kBeats) {
        if (arrived(reads_[reading_])) next = reading_;
    } else if (read_budget_.open()) {
        next = choose(reads_, false);
    }
    if (next == kNoBurst || !read_budget_.open() || !r_stalls_.open()) {
        if (next != kNoBurst) r_stalls_.wait();
        std::memset(out_.rdata, kGarbage, bus_bytes_);
        return;
    }
    reading_ = next;
    Burst& burst = reads_[reading_];
    const uint64_t offset = uint64_t{burst.taken} * bus_bytes_;
    std::memcpy(out_.rdata, burst.data.data() + offset, bus_bytes_);
    burst.taken++;
    if (dram_.enabled()) {
        dram_.take(burst.ticket, offset + bus_bytes_, burst.taken == burst.beats);
    }
    out_.rvalid = true;
    out_.rid = burst.id;
    out_.rresp = map_.response(burst.addr + offset, bus_bytes_, false);
    out_.rlast = burst.taken == burst.beats;
    read_budget_.spend();
    r_stalls_.transferred();
}

}  // namespace headrace
