// The compiled loop: runs the Verilated top without Python in any cycle.
#include <cstdint>

#include "clocked_top.h"

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

// A signal of the control port: Verilator spells a double underscore as one and its code.
#define CTRL(signal) top_.ctrl___05F##signal

namespace {

// Why a call came back; simulation.py holds the same numbers.
enum Stop : int { kCycles = 0, kInterrupt = 1, kViolation = 2, kNoAnswer = 3 };

constexpr unsigned kPatience = 10000;  // cycles that the control port may take to answer

class Loop : headrace::ClockedTop {
public:
    Loop(uint64_t memory, const char* trace) {
        // The first evaluation only takes down the levels that edges are told from.
        top_.eval();
        top_.memory = memory;
        CTRL(wstrb) = 0xF;
        begin_trace(trace);
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
