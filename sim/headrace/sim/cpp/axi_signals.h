// Signals of one AXI4 port, as they stand at a rising clock edge.
#pragma once

#include <cstdint>

namespace headrace {

constexpr unsigned kMaxBusBytes = 128;  // AXI4 allows up to 1024 bits.
constexpr unsigned kBoundary = 4096;    // No burst crosses a multiple of this.

enum Response : uint8_t { kOkay = 0, kSlvErr = 2, kDecErr = 3 };

// An address channel: AW or AR.
struct AxiAddress {
    bool valid;
    uint64_t addr;
    uint8_t len;  // beats - 1
    uint8_t size;
    uint8_t burst;
    uint32_t id;

    unsigned beats() const { return len + 1u; }
    bool same_payload(const AxiAddress& other) const {
        return addr == other.addr && len == other.len && size == other.size &&
               burst == other.burst && id == other.id;
    }
};

// What the master drives. `wdata` and `wstrb` point to little-endian 32-bit words.
struct AxiInputs {
    bool reset;
    AxiAddress aw;
    bool wvalid;
    const uint32_t* wdata;
    const uint32_t* wstrb;
    bool wlast;
    bool bready;
    AxiAddress ar;
    bool rready;
};

// What the memory drives until the next edge.
struct AxiOutputs {
    bool awready = false;
    bool wready = false;
    bool bvalid = false;
    uint32_t bid = 0;
    uint8_t bresp = kOkay;
    bool arready = false;
    bool rvalid = false;
    uint32_t rid = 0;
    uint8_t rdata[kMaxBusBytes] = {};
    uint8_t rresp = kOkay;
    bool rlast = false;
};

}  // namespace headrace
