// A bare loop over the systolic array alone, with random data in every cycle: what a simulation of
// a whole device is measured against.
#include <cstdint>

#include "Vtop.h"
#include "verilated.h"

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

namespace {

constexpr unsigned kPass = 32;  // cycles of a pass

struct Loop {
    VerilatedContext context;
    Vtop top{&context, ""};
    uint64_t random = 0x9E3779B97F4A7C15;
    unsigned step = 0;

    // The first evaluation only takes down the levels that edges are told from.
    Loop() { top.eval(); }

    uint64_t next() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        return random;
    }

    uint64_t run(uint64_t cycles) {
        uint64_t seen = 0;
        for (uint64_t cycle = 0; cycle < cycles; cycle++) {
            for (size_t word = 0; word < sizeof(top.data) / 4; word += 2) {
                const uint64_t value = next();
                top.data[word] = static_cast<uint32_t>(value);
                top.data[word + 1] = static_cast<uint32_t>(value >> 32);
            }
            step = step == kPass - 1 ? 0 : step + 1;
            top.last = step == kPass - 1;
            top.clk = 1;
            top.eval();
            top.clk = 0;
            top.eval();
            if (top.o_valid) seen = seen * 31 + top.o[0];
        }
        return seen;
    }
};

}  // namespace

HEADRACE_API Loop* headrace_array_new() { return new Loop; }
HEADRACE_API void headrace_array_delete(Loop* loop) {
    loop->top.final();
    delete loop;
}
// Run so many cycles; the result depends on all sums of column 0.
HEADRACE_API uint64_t headrace_array_run(Loop* loop, uint64_t cycles) {
    return loop->run(cycles);
}
