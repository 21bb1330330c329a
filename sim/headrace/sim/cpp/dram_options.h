// Geometry, timings and queues of a DRAM and its controller. Numbers come from Python (dram.py).
#pragma once

#include <cstdint>
#include <string>

namespace headrace {

// Times are clocks of the memory; `rc` is ACT to ACT of one bank, `turn` what a write after a read
// waits for beyond the end of the read data.
struct DramOptions {
    uint64_t enabled = 0;
    uint64_t ratio_num = 1, ratio_den = 1;  // memory clocks per port clock
    uint64_t access_log2 = 4;               // bytes of one READ or WRITE
    uint64_t burst = 4;                     // clocks that its data takes
    uint64_t group_bits = 0, interleaved_bits = 0;  // the latter: of these, next to the access
    uint64_t group_shift = 0, bank_bits = 3, bank_shift = 0, row_shift = 0;
    uint64_t fold = 0;                      // row bits are folded into group and bank by XOR
    uint64_t rcd = 1, rp = 1, rp_all = 1, ras = 1, rc = 1, cl = 1, cwl = 1;
    uint64_t ccd_s = 1, ccd_l = 1, rrd_s = 1, rrd_l = 1, faw = 0, rtp = 1, wr = 1;
    uint64_t wtr_s = 1, wtr_l = 1, turn = 1;
    uint64_t refi = 0, rfc = 1;             // refi 0: never refreshed
    uint64_t row_command = 1, column_command = 1, precharge_command = 1;  // clocks on the bus
    uint64_t separate_buses = 0;            // row and column commands have a bus each
    uint64_t read_queue = 64, write_queue = 64, write_high = 48, write_low = 16;
    uint64_t read_buffer = 128;             // accesses that are asked for and not delivered
    uint64_t controller = 0;                // clocks that data and answers take besides
    uint64_t starve = 512, idle = 32;
    // Not 0: accesses go in order, and one bank at a time: so many clocks from the last access of
    // one bank to the first command for the next.
    uint64_t serial = 0;

    // Returns whether there is an option of that name, and in `changed` whether it was another.
    bool set(const std::string& name, uint64_t value, bool& changed) {
        struct Field {
            const char* name;
            uint64_t DramOptions::* member;
        };
#define HEADRACE_FIELD(field) {#field, &DramOptions::field}
        static constexpr Field fields[] = {
            HEADRACE_FIELD(enabled), HEADRACE_FIELD(ratio_num), HEADRACE_FIELD(ratio_den),
            HEADRACE_FIELD(access_log2), HEADRACE_FIELD(burst), HEADRACE_FIELD(group_bits),
            HEADRACE_FIELD(interleaved_bits), HEADRACE_FIELD(group_shift),
            HEADRACE_FIELD(bank_bits), HEADRACE_FIELD(bank_shift), HEADRACE_FIELD(row_shift), HEADRACE_FIELD(fold), HEADRACE_FIELD(rcd),
            HEADRACE_FIELD(rp), HEADRACE_FIELD(rp_all), HEADRACE_FIELD(ras), HEADRACE_FIELD(rc),
            HEADRACE_FIELD(cl), HEADRACE_FIELD(cwl), HEADRACE_FIELD(ccd_s), HEADRACE_FIELD(ccd_l),
            HEADRACE_FIELD(rrd_s), HEADRACE_FIELD(rrd_l), HEADRACE_FIELD(faw), HEADRACE_FIELD(rtp),
            HEADRACE_FIELD(wr), HEADRACE_FIELD(wtr_s), HEADRACE_FIELD(wtr_l), HEADRACE_FIELD(turn),
            HEADRACE_FIELD(refi), HEADRACE_FIELD(rfc), HEADRACE_FIELD(row_command),
            HEADRACE_FIELD(column_command), HEADRACE_FIELD(precharge_command),
            HEADRACE_FIELD(separate_buses), HEADRACE_FIELD(read_queue),
            HEADRACE_FIELD(write_queue), HEADRACE_FIELD(write_high), HEADRACE_FIELD(write_low),
            HEADRACE_FIELD(read_buffer), HEADRACE_FIELD(controller), HEADRACE_FIELD(starve),
            HEADRACE_FIELD(idle), HEADRACE_FIELD(serial),
        };
#undef HEADRACE_FIELD
        for (const Field& field : fields) {
            if (name != field.name) continue;
            changed = this->*field.member != value;
            this->*field.member = value;
            return true;
        }
        return false;
    }
};

}  // namespace headrace
