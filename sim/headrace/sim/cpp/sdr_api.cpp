// The SDR SDRAM for the host (C functions) and for the design (DPI).
#include <cstdint>
#include <string>

#include "sdr_chip.h"

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

using headrace::SdrChip;
using headrace::SdrPins;

namespace {

std::string text;  // what the last call returned

const char* keep(std::string value) {
    text = std::move(value);
    return text.c_str();
}

}  // namespace

HEADRACE_API SdrChip* headrace_sdr_new(uint8_t* storage, uint64_t size) {
    return new SdrChip{storage, size};
}
HEADRACE_API void headrace_sdr_delete(SdrChip* chip) { delete chip; }
HEADRACE_API int headrace_sdr_set(SdrChip* chip, const char* name, uint64_t value) {
    return chip->set(name, value) ? 0 : -1;
}
HEADRACE_API const char* headrace_sdr_violation(SdrChip* chip) { return keep(chip->violation()); }
HEADRACE_API void headrace_sdr_clear_violation(SdrChip* chip) { chip->clear_violation(); }
HEADRACE_API uint64_t headrace_sdr_cycles(SdrChip* chip) { return chip->cycles(); }
HEADRACE_API const char* headrace_sdr_statistics(SdrChip* chip) {
    return keep(chip->statistics());
}
HEADRACE_API void headrace_sdr_reset_statistics(SdrChip* chip) { chip->reset_statistics(); }

// One rising edge of the chip's clock: `command` is cke, cs_n, ras_n, cas_n, we_n from bit 4 down.
HEADRACE_API void headrace_sdr_tick(uint64_t handle, unsigned int command, unsigned int a,
                                  unsigned int ba, unsigned int dm, uint64_t dq, uint64_t dq_oe,
                                  uint64_t* bus, unsigned char* violation) {
    auto* chip = reinterpret_cast<SdrChip*>(handle);
    if (chip == nullptr) {
        *bus = 0;
        *violation = 0;
        return;
    }
    *bus = chip->tick({bool(command >> 4 & 1), bool(command >> 3 & 1), bool(command >> 2 & 1),
                       bool(command >> 1 & 1), bool(command & 1), a, ba, dm, dq, dq_oe});
    *violation = chip->violation().empty() ? 0 : 1;
}
