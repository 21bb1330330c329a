// The memory behind an AXI port: where it is, and which addresses answer with an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "axi_signals.h"

namespace headrace {

class AddressMap {
public:
    AddressMap(uint8_t* data, uint64_t base, uint64_t bytes)
        : data_{data}, base_{base}, bytes_{bytes} {}

    // Whether all of [addr, addr + bytes) is memory.
    bool contains(uint64_t addr, uint64_t bytes) const {
        return addr >= base_ && bytes <= bytes_ && addr - base_ <= bytes_ - bytes;
    }

    // Host pointer to an address that `contains` accepts.
    uint8_t* at(uint64_t addr) const { return data_ + (addr - base_); }

    // Let [first, first + bytes) answer `response` to reads, writes or both.
    void inject(uint64_t first, uint64_t bytes, uint8_t response, bool reads, bool writes) {
        errors_.push_back({first, bytes, response, reads, writes});
    }
    void clear_errors() { errors_.clear(); }

    // The response to an access to [addr, addr + bytes): the worst of all that overlap.
    uint8_t response(uint64_t addr, uint64_t bytes, bool write) const {
        uint8_t worst = kOkay;
        for (const Error& error : errors_) {
            const bool overlaps = addr - error.first < error.bytes || error.first - addr < bytes;
            if (overlaps && (write ? error.writes : error.reads)) {
                worst = std::max(worst, error.response);
            }
        }
        return worst;
    }

private:
    struct Error {
        uint64_t first, bytes;
        uint8_t response;
        bool reads, writes;
    };

    uint8_t* data_;
    uint64_t base_, bytes_;
    std::vector<Error> errors_;
};

}  // namespace headrace
