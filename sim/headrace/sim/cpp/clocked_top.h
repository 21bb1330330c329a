// A Verilated top with its clocks: what all compiled loops have.
#pragma once

#include <cstdint>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

namespace headrace {

// A clock of twice the frequency, in phase, where the design has one.
template <class Top>
auto set_fast(Top& top, bool level, int) -> decltype(top.clk2x, true) {
    top.clk2x = level;
    return true;
}
template <class Top>
bool set_fast(Top&, bool, long) {
    return false;
}

class ClockedTop {
protected:
    ClockedTop() : top_{&context_, ""} {}
    ~ClockedTop() {
        top_.final();
#if VM_TRACE
        if (trace_) trace_->close();
#endif
    }

    // Write all signals to a VCD file from now on, unless `path` is null.
    void begin_trace(const char* path) {
#if VM_TRACE
        if (path != nullptr) {
            context_.traceEverOn(true);
            trace_ = std::make_unique<VerilatedVcdC>();
            top_.trace(trace_.get(), 99);
            trace_->open(path);
        }
#else
        (void)path;
#endif
    }

    // Show the device its inputs, so that handshakes are seen as they stand just before the edge.
    void settle() {
        top_.sample ^= 1;
        eval();
    }
    void edge() {
        top_.clk = 1;
        const bool fast = set_fast(top_, true, 0);
        eval();
        if (fast) {
            set_fast(top_, false, 0);
            eval();
            set_fast(top_, true, 0);
        }
        top_.clk = 0;
        eval();
        if (fast) {
            set_fast(top_, false, 0);
            eval();
        }
    }
    void eval() {
        top_.eval();
#if VM_TRACE
        if (trace_) trace_->dump(time_++);
#endif
    }

    VerilatedContext context_;
    Vtop top_;
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> trace_;
    uint64_t time_ = 0;
#endif
};

}  // namespace headrace
