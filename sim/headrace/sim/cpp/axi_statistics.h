// What passed through an AXI port.
#pragma once

#include <cstdint>
#include <string>

#include "axi_options.h"

namespace headrace {

// One direction. Cycles of the data channel add up: beats + stalls + idle = cycles.
struct AxiTraffic {
    uint64_t bytes[kClasses] = {};   // read: whole beats; written: bytes whose strobe was set
    uint64_t bursts[kClasses] = {};
    uint64_t beats = 0;
    uint64_t stalls = 0;             // data channel: VALID without READY
    uint64_t address_stalls = 0;     // address channel: VALID without READY
    uint64_t errors = 0;             // responses other than OKAY
    unsigned outstanding = 0;        // bursts in flight now
    unsigned max_outstanding = 0;
};

struct AxiStatistics {
    uint64_t cycles = 0;  // out of reset
    AxiTraffic read, write;

    // One JSON object, so that its readers need no copy of these structures.
    std::string json() const;
};

}  // namespace headrace
