// A master without RTL: bursts straight into an AxiMemory, and the commands that its DRAM issued.
#include <cstring>
#include <deque>

#include "axi_memory.h"

using headrace::AxiInputs;
using headrace::AxiMemory;
using headrace::AxiOutputs;

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

// Hold the memory in reset for a cycle: it starts over.
HEADRACE_API void headrace_traffic_reset(AxiMemory* memory) {
    AxiInputs in{};
    in.reset = true;
    memory->tick(in);
}

// Run `count` bursts of `beats` beats in their order, at most `outstanding` of each direction in
// flight, then until all are answered and `idle` cycles more. Burst i reads into or writes from
// data + i * beats * bus_bytes, and ends (last beat or response) in cycle ends[i]; either may be
// null. Returns the cycles from the first address to the last answer, 0 where `limit` is not enough.
HEADRACE_API uint64_t headrace_traffic_run(AxiMemory* memory, uint64_t count, const uint64_t* addrs,
                                           const uint8_t* writes, unsigned beats,
                                           unsigned outstanding, uint64_t idle, uint64_t limit,
                                           uint8_t* data, uint64_t* ends) {
    const unsigned bus_bytes = memory->bus_bytes();
    const uint64_t burst_bytes = uint64_t{beats} * bus_bytes;
    uint32_t words[headrace::kMaxBusBytes / 4] = {};
    uint32_t strobes[headrace::kMaxBusBytes / 32];
    std::memset(strobes, 0xFF, sizeof strobes);
    const auto size = static_cast<uint8_t>(__builtin_ctz(bus_bytes));
    std::deque<uint64_t> reading, unsent, unanswered;  // bursts in flight
    unsigned received = 0, sent = 0;                   // beats of the first of them
    uint64_t next = 0, ended = 0, last = 0, cycle = 0;
    AxiOutputs out;
    bool offered = false;  // burst `next` has its VALID high
    const auto end = [&](uint64_t burst) {
        if (ends != nullptr) ends[burst] = cycle;
        ended++;
        last = cycle;
    };
    // One cycle without a request, so that what is READY is known.
    AxiInputs none{};
    none.wdata = words;
    none.wstrb = strobes;
    out = memory->tick(none);
    while (ended < count || cycle < last + idle) {
        if (cycle++ == limit) return 0;
        AxiInputs in = none;
        in.rready = in.bready = true;
        if (next < count && !offered) {
            const size_t flying = writes[next] ? unanswered.size() : reading.size();
            if (flying < outstanding) {
                offered = true;
                if (writes[next]) {
                    unsent.push_back(next);
                    unanswered.push_back(next);
                }
            }
        }
        if (offered) {
            auto& channel = writes[next] ? in.aw : in.ar;
            channel = {true, addrs[next], static_cast<uint8_t>(beats - 1), size, 1,
                       writes[next] ? 3u : 2u};
        }
        if (!unsent.empty()) {
            in.wvalid = true;
            in.wlast = sent + 1 == beats;
            if (data != nullptr) {
                std::memcpy(words, data + unsent.front() * burst_bytes + sent * bus_bytes,
                            bus_bytes);
            }
        }
        const bool taken = in.wvalid && out.wready;
        if (out.rvalid) {
            if (data != nullptr) {
                std::memcpy(data + reading.front() * burst_bytes + received * bus_bytes,
                            out.rdata, bus_bytes);
            }
            received++;
            if (out.rlast) {
                end(reading.front());
                reading.pop_front();
                received = 0;
            }
        }
        if (out.bvalid) {
            end(unanswered.front());
            unanswered.pop_front();
        }
        if (offered && (writes[next] ? out.awready : out.arready)) {
            if (!writes[next]) reading.push_back(next);
            offered = false;
            next++;
        }
        out = memory->tick(in);
        if (taken && ++sent == beats) {
            unsent.pop_front();
            sent = 0;
        }
        if (!memory->violation().empty()) return 0;
    }
    return last;
}

// Record commands from now on, or stop; forgets those recorded before.
HEADRACE_API void headrace_traffic_record(AxiMemory* memory, int on) {
    memory->dram().controller().recording = on != 0;
    memory->dram().controller().records.clear();
}

// The commands: clock, command, bank and row of each, in the order of issue.
HEADRACE_API const uint64_t* headrace_traffic_records(AxiMemory* memory, uint64_t* count) {
    const auto& records = memory->dram().controller().records;
    *count = records.size();
    return reinterpret_cast<const uint64_t*>(records.data());
}
