// Main program of a bench on a whole device: cocotb's callbacks around a compiled clock.
//
// Cocotb's own main loop lets cocotb toggle the clock, and goes through all kinds of callbacks on
// every edge. Here the clock is a part of the loop, and an edge at which nothing is due costs one
// evaluation. The order within a time step is that of cocotb's loop: callbacks that are due, the
// clock, callbacks of changed values (which see everything as it stands before the edge), and
// evaluation until nothing changes any more.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

namespace {

constexpr uint64_t kNever = ~uint64_t{0};

uint64_t now = 0;           // picoseconds
uint64_t half_period = 0;   // 0 while the clock stands still
uint64_t next_edge = kNever;

bool value_callbacks() {
    bool any = false;
    while (VerilatedVpi::callValueCbs()) any = true;
    return any;
}

class Bench {
public:
    Bench(const char* trace) : top_{new Vtop{""}} {
#if VM_TRACE
        if (trace != nullptr) {
            Verilated::traceEverOn(true);
            trace_ = std::make_unique<VerilatedVcdC>();
            top_->trace(trace_.get(), 99);
            trace_->open(trace);
        }
#else
        (void)trace;
#endif
    }

    void run() {
        while (!Verilated::gotFinish()) {
            evaluate();
            const uint64_t deadline = VerilatedVpi::cbNextDeadline();
            if (deadline == kNever && next_edge == kNever) break;
            now = std::min(deadline, next_edge);
            if (VerilatedVpi::callCbs(cbNextSimTime)) value_callbacks();
            if (deadline <= now) VerilatedVpi::callTimedCbs();
            // What was due may have stopped or started the clock.
            if (next_edge <= now) edge();
            value_callbacks();
        }
    }

    void finish() {
        top_->final();
#if VM_TRACE
        if (trace_) trace_->close();
        trace_.reset();
#endif
    }

private:
    void edge() {
        top_->clk ^= 1;
        next_edge += half_period;
    }

    // Inputs reach the device at the falling edge, if any was written; also if a bench makes the
    // clock itself.
    void step() {
        if (clock_ && !top_->clk && written_) {
            top_->sample ^= 1;
            written_ = false;
        }
        clock_ = top_->clk;
        top_->eval_step();
    }

    void put() {
        VerilatedVpi::clearEvalNeeded();
        VerilatedVpi::doInertialPuts();
        value_callbacks();
        written_ |= VerilatedVpi::evalNeeded();
    }

    void evaluate() {
        do {
            do {
                step();
                put();
            } while (VerilatedVpi::evalNeeded());
            if (!VerilatedVpi::hasCbs(cbReadWriteSynch)) break;
            VerilatedVpi::callCbs(cbReadWriteSynch);
            VerilatedVpi::doInertialPuts();
            value_callbacks();
            written_ |= VerilatedVpi::evalNeeded();
        } while (VerilatedVpi::evalNeeded());
        top_->eval_end_step();
        if (VerilatedVpi::hasCbs(cbReadOnlySynch)) VerilatedVpi::callCbs(cbReadOnlySynch);
#if VM_TRACE
        if (trace_) trace_->dump(now);
#endif
    }

    std::unique_ptr<Vtop> top_;
    bool clock_ = false, written_ = true;
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> trace_;
#endif
};

}  // namespace

double sc_time_stamp() { return static_cast<double>(now); }

extern "C" void vlog_startup_routines_bootstrap(void);

// Let the clock run with half a period of so many picoseconds; 0 stops it where it stands.
HEADRACE_API void headrace_bench_clock(uint64_t half) {
    half_period = half;
    next_edge = half == 0 ? kNever : now + half;
}

// Arguments are those of cocotb's runner, of which only those of the waveform are known.
int main(int argc, char** argv) {
    const char* file = "dump.vcd";
    bool traced = false;
    for (int index = 1; index < argc; index++) {
        if (std::strcmp(argv[index], "--trace") == 0) traced = true;
        if (std::strcmp(argv[index], "--trace-file") == 0 && index + 1 < argc) {
            file = argv[++index];
        }
    }
    Verilated::commandArgs(argc, argv);
    Verilated::fatalOnVpiError(false);  // cocotb asks for what is not there
    Bench bench{traced ? file : nullptr};
    vlog_startup_routines_bootstrap();
    Verilated::addExitCb([](void*) { VerilatedVpi::callCbs(cbEndOfSimulation); }, nullptr);
    VerilatedVpi::callCbs(cbStartOfSimulation);
    value_callbacks();
    bench.run();
    bench.finish();
    VerilatedVpi::callCbs(cbEndOfSimulation);
    return Verilated::threadContextp()->errorCount() > 0 ? 1 : 0;
}
