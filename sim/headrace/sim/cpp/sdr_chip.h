// An SDR SDRAM at its pins: banks, mode register, data, and the rules of its data sheet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

// Geometry, and times in clocks of the chip, which sdr.py computes from nanoseconds.
struct SdrOptions {
    uint64_t banks = 4, rows = 8192, columns = 512, bus_bytes = 2;
    uint64_t rcd = 2, rp = 2, ras = 5, rc = 7, rfc = 7, rrd = 2, wr = 2, mrd = 2;
    uint64_t refi_num = 1, refi_den = 1;  // clocks per refresh, a fraction
    uint64_t power_up = 10000;            // clocks before the first command
    uint64_t cl_min = 2;                  // least CAS latency at this clock
    uint64_t ratio = 1;                   // clocks of the chip in one of the design
};

// Levels of the pins at a rising edge.
struct SdrPins {
    bool cke, cs_n, ras_n, cas_n, we_n;
    unsigned a, ba, dm;
    uint64_t dq, dq_oe;
};

class SdrChip {
public:
    SdrChip(uint8_t* storage, uint64_t size) : storage_{storage}, size_{size} {}

    bool set(const std::string& name, uint64_t value);
    // One rising edge; returns what the chip drives on the bus from now on.
    uint64_t tick(const SdrPins& pins);
    void reset_statistics();

    const std::string& violation() const { return violation_; }
    void clear_violation() { violation_.clear(); }
    uint64_t cycles() const { return now_ / options_.ratio; }
    std::string statistics() const;

private:
    struct Bank {
        bool open = false;
        uint64_t row = 0, free = 0;           // clock from which it may be opened
        int64_t opened = -1000000, written = -1000000;
    };
    struct Drive {
        bool valid = false;
        uint64_t data = 0;
    };
    // A burst that goes on: one word a clock.
    struct Burst {
        bool write = false;
        unsigned left = 0, bank = 0;
        uint64_t column = 0, index = 0;
        bool precharge = false;
    };

    void fail(const std::string& what);
    void command(const SdrPins& pins);
    void activate(const SdrPins& pins);
    void access(const SdrPins& pins, bool write);
    void precharge(unsigned bank);
    void refresh();
    void mode(const SdrPins& pins);
    void move(const SdrPins& pins);
    uint64_t address(unsigned bank, uint64_t column) const;

    SdrOptions options_;
    uint8_t* storage_;
    uint64_t size_;
    std::vector<Bank> banks_;
    std::string violation_;
    uint64_t now_ = 0, powered_ = 0, busy_ = 0, last_activate_ = 0;
    uint64_t refreshes_ = 0, refresh_start_ = 0, refreshes_since_ = 0;
    unsigned burst_length_ = 0, cl_ = 0;
    bool clocked_ = false, precharged_ = false, ready_ = false, driving_ = false;
    Burst burst_;
    Drive drive_[8];             // what leaves, by clock modulo 8
    unsigned masks_[4] = {};     // data masks, by clock modulo 4
    // Counts: commands, words moved, clocks.
    uint64_t reads_ = 0, writes_ = 0, activates_ = 0, precharges_ = 0, words_ = 0, since_ = 0;
};

}  // namespace headrace
