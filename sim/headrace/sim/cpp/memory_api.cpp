// C interface of AxiMemory, for Python (ctypes) and for the Verilated design (DPI-C).
#include <string>

#include "axi_memory.h"

using headrace::AxiInputs;
using headrace::AxiMemory;
using headrace::AxiOutputs;

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

// Life and settings.

HEADRACE_API AxiMemory* headrace_memory_new(uint8_t* data, uint64_t base, uint64_t bytes,
                                            unsigned bus_bytes) {
    return new AxiMemory{data, base, bytes, bus_bytes};
}

HEADRACE_API void headrace_memory_delete(AxiMemory* memory) { delete memory; }

// Returns 1, or 0 where there is no option of that name.
HEADRACE_API int headrace_memory_set(AxiMemory* memory, const char* option, double value) {
    return memory->set(option, value);
}

HEADRACE_API void headrace_memory_inject(AxiMemory* memory, uint64_t first, uint64_t bytes,
                                         int response, int reads, int writes) {
    memory->map().inject(first, bytes, static_cast<uint8_t>(response), reads != 0, writes != 0);
}

HEADRACE_API void headrace_memory_clear_errors(AxiMemory* memory) { memory->map().clear_errors(); }

HEADRACE_API void headrace_memory_clear_violation(AxiMemory* memory) {
    memory->clear_violation();
}

// Results. A string is valid until the next call for one.

HEADRACE_API const char* headrace_memory_violation(AxiMemory* memory) {
    return memory->violation().c_str();
}

HEADRACE_API const char* headrace_memory_statistics(AxiMemory* memory) {
    static thread_local std::string text;
    text = memory->report();
    return text.c_str();
}

HEADRACE_API void headrace_memory_reset_statistics(AxiMemory* memory) {
    memory->reset_statistics();
}

// Rising edges so far, resets included.
HEADRACE_API uint64_t headrace_memory_cycles(AxiMemory* memory) { return memory->cycles(); }

// One rising edge. The wrapper holds the memory's address as a 64-bit number, so that several
// designs and several ports can live in one process; before it is set, nothing answers.
HEADRACE_API void headrace_memory_tick(
    uint64_t handle, uint8_t reset,
    uint8_t awvalid, uint64_t awaddr, uint8_t awlen, uint8_t awsize, uint8_t awburst, uint32_t awid,
    uint8_t wvalid, const uint32_t* wdata, const uint32_t* wstrb, uint8_t wlast, uint8_t bready,
    uint8_t arvalid, uint64_t araddr, uint8_t arlen, uint8_t arsize, uint8_t arburst, uint32_t arid,
    uint8_t rready,
    uint8_t* awready, uint8_t* wready, uint8_t* bvalid, uint32_t* bid, uint8_t* bresp,
    uint8_t* arready, uint8_t* rvalid, uint32_t* rid, uint32_t* rdata, uint8_t* rresp,
    uint8_t* rlast, uint8_t* violation) {
    static const AxiOutputs silence;
    auto* memory = reinterpret_cast<AxiMemory*>(handle);
    const AxiOutputs* out = &silence;
    *violation = 0;
    if (memory != nullptr) {
        out = &memory->tick(AxiInputs{
            reset != 0,
            {awvalid != 0, awaddr, awlen, awsize, awburst, awid},
            wvalid != 0, wdata, wstrb, wlast != 0,
            bready != 0,
            {arvalid != 0, araddr, arlen, arsize, arburst, arid},
            rready != 0});
        *violation = !memory->violation().empty();
        __builtin_memcpy(rdata, out->rdata, memory->bus_bytes());
    }
    *awready = out->awready;
    *wready = out->wready;
    *bvalid = out->bvalid;
    *bid = out->bid;
    *bresp = out->bresp;
    *arready = out->arready;
    *rvalid = out->rvalid;
    *rid = out->rid;
    *rresp = out->rresp;
    *rlast = out->rlast;
}
