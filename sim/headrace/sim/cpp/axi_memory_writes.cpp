// The write channels of AxiMemory.
#include <algorithm>
#include <cstring>

#include "axi_memory.h"

namespace headrace {

void AxiMemory::take_write_address(const AxiInputs& in) {
    if (!in.aw.valid) return;
    // An address is known as soon as it is offered, since it may not change: so its data may be
    // taken even while the address itself is stalled.
    if (unaccepted_ == 0) {
        Burst burst = start(in.aw);
        burst.accepted = false;
        burst.strobes.assign(burst.data.size(), 0);
        writes_.push_back(std::move(burst));
        unaccepted_ = 1;
    }
    if (!out_.awready) {
        statistics_.write.address_stalls++;
        aw_stalls_.wait();
        return;
    }
    aw_stalls_.transferred();
    unaccepted_ = 0;
    Burst& burst = writes_.back();
    burst.accepted = true;
    burst.due = cycle_ + (dram_.enabled() ? 0 : options_.write_latency - 1);
    statistics_.write.bursts[burst.id]++;
    auto& most = statistics_.write.max_outstanding;
    most = std::max(most, static_cast<unsigned>(writes_.size()));
}

void AxiMemory::take_write_data(const AxiInputs& in) {
    if (!in.wvalid) return;
    if (!out_.wready) {
        statistics_.write.stalls++;
        w_stalls_.wait();
        return;
    }
    w_stalls_.transferred();
    write_budget_.spend();
    const auto owed = std::find_if(writes_.begin(), writes_.end(),
                                   [](const Burst& burst) { return burst.taken < burst.beats; });
    Burst& burst = *owed;
    const size_t offset = size_t{burst.taken} * bus_bytes_;
    std::memcpy(burst.data.data() + offset, in.wdata, bus_bytes_);
    uint64_t written = 0;
    for (unsigned byte = 0; byte < bus_bytes_; byte++) {
        const bool strobe = (in.wstrb[byte / 32] >> (byte % 32)) & 1;
        burst.strobes[offset + byte] = strobe;
        written += strobe;
    }
    burst.taken++;
    if (burst.taken == burst.beats) {
        burst.due = cycle_ + (dram_.enabled() ? 0 : options_.write_latency - 1);
        if (dram_.enabled()) burst.ticket = dram_.write(burst.addr, burst.data.size());
    }
    statistics_.write.beats++;
    statistics_.write.bytes[burst.id] += written;
}

void AxiMemory::take_write_response(const AxiInputs& in) {
    if (!out_.bvalid || !in.bready) return;
    statistics_.write.errors += out_.bresp != kOkay;
    out_.bvalid = false;
    spare_.push_back(std::move(writes_[responding_].data));
    writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(responding_));
}

void AxiMemory::offer_write_response() {
    if (out_.bvalid) return;
    const size_t next = choose(writes_, true);
    if (next == kNoBurst) return;
    if (!b_stalls_.open()) {
        b_stalls_.wait();
        return;
    }
    b_stalls_.transferred();
    responding_ = next;
    const Burst& burst = writes_[next];
    store(burst);
    out_.bvalid = true;
    out_.bid = burst.id;
    out_.bresp = map_.response(burst.addr, burst.data.size(), true);
}

void AxiMemory::store(const Burst& burst) {
    for (size_t offset = 0; offset < burst.data.size(); offset += bus_bytes_) {
        if (map_.response(burst.addr + offset, bus_bytes_, true) != kOkay) continue;
        uint8_t* memory = map_.at(burst.addr + offset);
        for (size_t byte = 0; byte < bus_bytes_; byte++) {
            if (burst.strobes[offset + byte]) memory[byte] = burst.data[offset + byte];
        }
    }
}

}  // namespace headrace
