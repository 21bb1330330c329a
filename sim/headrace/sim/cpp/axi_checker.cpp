#include "axi_checker.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace headrace {

namespace {

const char* name(bool write) { return write ? "AW" : "AR"; }

std::string text(const char* format, uint64_t first, uint64_t second = 0) {
    char buffer[160];
    std::snprintf(buffer, sizeof buffer, format, first, second);
    return buffer;
}

}  // namespace

AxiChecker::AxiChecker(const AddressMap& map, const AxiOptions& options, unsigned bus_bytes)
    : map_{map},
      options_{options},
      bus_bytes_{bus_bytes},
      size_{static_cast<unsigned>(__builtin_ctz(bus_bytes))},
      stalled_data_((bus_bytes + 3) / 4),
      stalled_strobe_((bus_bytes + 31) / 32) {}

void AxiChecker::clear() {
    violation_.clear();
    forget();
}

void AxiChecker::forget() {
    unwritten_.clear();
    aw_offered_ = was_reset_ = stalled_w_ = false;
    stalled_aw_.valid = stalled_ar_.valid = false;
    reads_ = writes_ = 0;
}

void AxiChecker::fail(const char* rule, uint64_t addr, const std::string& detail) {
    if (!violation_.empty()) return;
    violation_ = std::string{rule} + ": " + detail + text(" (cycle %" PRIu64, cycle_) +
                 text(", address 0x%" PRIx64 ")", addr);
}

void AxiChecker::check(const AxiInputs& in, const AxiOutputs& out, uint64_t cycle) {
    cycle_ = cycle;
    if (in.reset) {
        // The first cycle of a reset still shows what was before it.
        if (was_reset_ && (in.aw.valid || in.wvalid || in.ar.valid)) {
            fail("valid_in_reset", 0, "a VALID is high while the master is in reset");
        }
        forget();
        was_reset_ = true;
        return;
    }
    was_reset_ = false;
    check_stable(stalled_aw_, in.aw, true);
    check_stable(stalled_ar_, in.ar, false);
    if (in.aw.valid && !aw_offered_) {
        check_address(in.aw, true);
        unwritten_.push_back({in.aw.addr, in.aw.beats(), 0});
        aw_offered_ = true;
    }
    if (in.ar.valid && !stalled_ar_.valid) check_address(in.ar, false);
    check_write_data(in, out);
    count(in, out);
    remember(in, out);
}

void AxiChecker::check_stable(const AxiAddress& before, const AxiAddress& now, bool write) {
    if (!before.valid) return;
    if (!now.valid) {
        fail("stability", before.addr, std::string{name(write)} + "VALID fell before READY");
    } else if (!now.same_payload(before)) {
        fail("stability", before.addr, std::string{name(write)} + " payload changed while stalled");
    }
}

void AxiChecker::check_address(const AxiAddress& now, bool write) {
    const std::string channel = name(write);
    const uint64_t bytes = uint64_t{now.beats()} * bus_bytes_;
    if (now.burst != 1) {
        fail("burst_type", now.addr, channel + text("BURST is %" PRIu64 ", must be 1 (INCR)",
                                                    now.burst));
    }
    if (now.size != size_) {
        fail("size", now.addr, channel + text("SIZE is %" PRIu64 ", must be %" PRIu64
                                              " (the full bus width)", now.size, size_));
    }
    if (now.addr % bus_bytes_ != 0) {
        fail("alignment", now.addr, channel + text("ADDR must be a multiple of %" PRIu64 " bytes",
                                                   bus_bytes_));
    }
    if (now.beats() > options_.max_burst_beats) {
        fail("burst_length", now.addr, channel + text(" burst has %" PRIu64 " beats, more than %"
                                                      PRIu64, now.beats(),
                                                      options_.max_burst_beats));
    }
    if (now.addr / kBoundary != (now.addr + bytes - 1) / kBoundary) {
        fail("boundary", now.addr, channel + text(" burst of %" PRIu64
                                                  " bytes crosses a 4 KiB boundary", bytes));
    }
    if (now.id >= options_.classes) {
        fail("id", now.addr, channel + text("ID is %" PRIu64 ", but there are %" PRIu64
                                            " traffic classes", now.id, options_.classes));
    }
    if (map_.response(now.addr, bytes, write) == kOkay && !map_.contains(now.addr, bytes)) {
        fail("unmapped", now.addr, channel + text(" burst of %" PRIu64
                                                  " bytes leaves the mapped memory", bytes));
    }
}

void AxiChecker::check_write_data(const AxiInputs& in, const AxiOutputs& out) {
    if (stalled_w_) {
        const uint64_t addr = unwritten_.empty() ? 0 : unwritten_.front().addr;
        if (!in.wvalid) {
            fail("stability", addr, "WVALID fell before READY");
        } else if (in.wlast != stalled_last_ ||
                   std::memcmp(in.wdata, stalled_data_.data(), stalled_data_.size() * 4) != 0 ||
                   std::memcmp(in.wstrb, stalled_strobe_.data(), stalled_strobe_.size() * 4) != 0) {
            fail("stability", addr, "W payload changed while stalled");
        }
    }
    if (!in.wvalid) return;
    if (unwritten_.empty()) {
        fail("write_order", 0, "WVALID is high, but no write address is waiting for data");
        return;
    }
    if (!out.wready) return;
    Burst& burst = unwritten_.front();
    burst.taken++;
    if (in.wlast != (burst.taken == burst.beats)) {
        fail("wlast", burst.addr, text("WLAST is wrong on beat %" PRIu64 " of %" PRIu64,
                                       burst.taken, burst.beats));
    }
    if (burst.taken == burst.beats) unwritten_.pop_front();
}

void AxiChecker::count(const AxiInputs& in, const AxiOutputs& out) {
    if (in.aw.valid && out.awready) {
        aw_offered_ = false;
        writes_++;
        if (options_.max_writes != 0 && writes_ > options_.max_writes) {
            fail("outstanding", in.aw.addr, text("%" PRIu64 " writes outstanding, more than %"
                                                 PRIu64, writes_, options_.max_writes));
        }
    }
    if (in.ar.valid && out.arready) {
        reads_++;
        if (options_.max_reads != 0 && reads_ > options_.max_reads) {
            fail("outstanding", in.ar.addr, text("%" PRIu64 " reads outstanding, more than %"
                                                 PRIu64, reads_, options_.max_reads));
        }
    }
    // After the additions: a burst that ends in this cycle was still outstanding in it.
    if (out.bvalid && in.bready) writes_--;
    if (out.rvalid && in.rready && out.rlast) reads_--;
}

void AxiChecker::remember(const AxiInputs& in, const AxiOutputs& out) {
    stalled_aw_ = in.aw;
    stalled_aw_.valid = in.aw.valid && !out.awready;
    stalled_ar_ = in.ar;
    stalled_ar_.valid = in.ar.valid && !out.arready;
    stalled_w_ = in.wvalid && !out.wready;
    if (stalled_w_) {
        stalled_last_ = in.wlast;
        std::memcpy(stalled_data_.data(), in.wdata, stalled_data_.size() * 4);
        std::memcpy(stalled_strobe_.data(), in.wstrb, stalled_strobe_.size() * 4);
    }
}

}  // namespace headrace
