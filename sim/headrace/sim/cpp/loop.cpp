// The compiled loop: runs the Verilated top without Python in any cycle.
#include <cstdint>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

// A signal of the control port: Verilator spells a double underscore as one and its code.
#define CTRL(signal) top_.ctrl___05F##signal

namespace {

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

// Why a call came back; simulation.py holds the same numbers.
enum Stop : int { kCycles = 0, kInterrupt = 1, kViolation = 2, kNoAnswer = 3 };

constexpr unsigned kPatience = 10000;  // cycles that the control port may take to answer

class Loop {
public:
    Loop(uint64_t memory, const char* trace) : top_{&context_, ""} {
        // The first evaluation only takes down the levels that edges are told from.
        top_.eval();
        top_.memory = memory;
        CTRL(wstrb) = 0xF;
#if VM_TRACE
        if (trace != nullptr) {
            context_.traceEverOn(true);
            trace_ = std::make_unique<VerilatedVcdC>();
            top_.trace(trace_.get(), 99);
            trace_->open(trace);
        }
#else
        (void)trace;
#endif
    }
    ~Loop() {
        top_.final();
#if VM_TRACE
        if (trace_) trace_->close();
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

    void reset(unsigned cycles) {
        top_.rst = 1;
        CTRL(awvalid) = CTRL(wvalid) = CTRL(bready) = 0;
        CTRL(arvalid) = CTRL(rready) = 0;
        settle();
        for (unsigned cycle = 0; cycle < cycles; cycle++) edge();
        top_.rst = 0;
    }

    Stop run(uint64_t cycles, bool until_irq) {
        settle();
        for (uint64_t cycle = 0; cycle < cycles; cycle++) {
            if (top_.violation) return kViolation;
            if (until_irq && top_.irq) return kInterrupt;
            edge();
        }
        if (top_.violation) return kViolation;
        return until_irq && top_.irq ? kInterrupt : kCycles;
    }

    Stop write(uint32_t addr, uint32_t value, unsigned* response) {
        CTRL(awaddr) = addr;
        CTRL(wdata) = value;
        CTRL(awvalid) = CTRL(wvalid) = CTRL(bready) = 1;
        for (unsigned cycle = 0; cycle < kPatience; cycle++) {
            settle();
            const bool address = CTRL(awready), data = CTRL(wready);
            const bool done = CTRL(bvalid);
            *response = CTRL(bresp);
            edge();
            if (address) CTRL(awvalid) = 0;
            if (data) CTRL(wvalid) = 0;
            if (done) {
                CTRL(bready) = 0;
                return top_.violation ? kViolation : kCycles;
            }
        }
        return top_.violation ? kViolation : kNoAnswer;
    }

    Stop read(uint32_t addr, uint32_t* value, unsigned* response) {
        CTRL(araddr) = addr;
        CTRL(arvalid) = CTRL(rready) = 1;
        for (unsigned cycle = 0; cycle < kPatience; cycle++) {
            settle();
            const bool address = CTRL(arready), done = CTRL(rvalid);
            *value = CTRL(rdata);
            *response = CTRL(rresp);
            edge();
            if (address) CTRL(arvalid) = 0;
            if (done) {
                CTRL(rready) = 0;
                return top_.violation ? kViolation : kCycles;
            }
        }
        return top_.violation ? kViolation : kNoAnswer;
    }

private:
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

}  // namespace

// `trace` names a VCD file, or is null; it is ignored where the build has no tracing.
HEADRACE_API Loop* headrace_loop_new(uint64_t memory, const char* trace) {
    return new Loop{memory, trace};
}
HEADRACE_API void headrace_loop_delete(Loop* loop) { delete loop; }
HEADRACE_API void headrace_loop_reset(Loop* loop, unsigned cycles) { loop->reset(cycles); }
HEADRACE_API int headrace_loop_run(Loop* loop, uint64_t cycles, int until_irq) {
    return loop->run(cycles, until_irq != 0);
}
HEADRACE_API int headrace_loop_write(Loop* loop, uint32_t addr, uint32_t value,
                                     unsigned* response) {
    return loop->write(addr, value, response);
}
HEADRACE_API int headrace_loop_read(Loop* loop, uint32_t addr, uint32_t* value,
                                    unsigned* response) {
    return loop->read(addr, value, response);
}
