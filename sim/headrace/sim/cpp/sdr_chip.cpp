// An SDR SDRAM at its pins. See sdr_chip.h.
#include "sdr_chip.h"

#include <algorithm>
#include <cstdio>

namespace headrace {

namespace {

// What an undriven bus is taken for: no value that anything could rely on.
uint64_t floating(uint64_t now) {
    uint64_t x = now * 0x9E3779B97F4A7C15ull + 1;
    x ^= x >> 29;
    return x * 0xBF58476D1CE4E5B9ull;
}

}  // namespace

bool SdrChip::set(const std::string& name, uint64_t value) {
    struct {
        const char* name;
        uint64_t* place;
    } const fields[] = {
        {"banks", &options_.banks},       {"rows", &options_.rows},
        {"columns", &options_.columns},   {"bus_bytes", &options_.bus_bytes},
        {"rcd", &options_.rcd},           {"rp", &options_.rp},
        {"ras", &options_.ras},           {"rc", &options_.rc},
        {"rfc", &options_.rfc},           {"rrd", &options_.rrd},
        {"wr", &options_.wr},             {"mrd", &options_.mrd},
        {"refi_num", &options_.refi_num}, {"refi_den", &options_.refi_den},
        {"power_up", &options_.power_up}, {"cl_min", &options_.cl_min},
        {"ratio", &options_.ratio},
    };
    for (const auto& field : fields) {
        if (name == field.name) {
            *field.place = value;
            banks_.assign(options_.banks, {});
            return true;
        }
    }
    return false;
}

void SdrChip::fail(const std::string& what) {
    if (violation_.empty())
        violation_ = "SDR SDRAM, clock " + std::to_string(now_) + ": " + what;
}

uint64_t SdrChip::address(unsigned bank, uint64_t column) const {
    const uint64_t word =
        (banks_[bank].row * options_.banks + bank) * options_.columns + column;
    return word * options_.bus_bytes % size_;
}

uint64_t SdrChip::tick(const SdrPins& pins) {
    now_++;
    if (banks_.empty()) banks_.assign(options_.banks, {});
    masks_[now_ % 4] = pins.dm;
    if (driving_ && pins.dq_oe != 0) fail("the chip and the controller drive the bus together");
    driving_ = false;
    if (!pins.cke) {
        // The design was reset: the chip must be started again, with what it holds kept.
        clocked_ = ready_ = precharged_ = false;
        refreshes_since_ = burst_.left = 0;
        for (Drive& drive : drive_) drive.valid = false;
        return floating(now_);
    }
    if (!clocked_) {
        clocked_ = true;
        powered_ = now_;
    }
    if (!pins.cs_n && !(pins.ras_n && pins.cas_n && pins.we_n)) command(pins);
    move(pins);
    if (ready_ && (now_ - refresh_start_) * options_.refi_den >
                      (refreshes_since_ + 9) * options_.refi_num)
        fail("9 refreshes are owed");
    // What the next edge finds on the bus; a mask takes it off two clocks after it came.
    Drive& next = drive_[(now_ + 1) % 8];
    uint64_t bus = floating(now_);
    if (next.valid) {
        driving_ = true;
        const unsigned mask = masks_[(now_ + 3) % 4];
        for (uint64_t byte = 0; byte < options_.bus_bytes; byte++) {
            const uint64_t bits = 0xFFull << 8 * byte;
            if (!(mask >> byte & 1)) bus = (bus & ~bits) | (next.data & bits);
        }
        next.valid = false;
    }
    return bus;
}

void SdrChip::command(const SdrPins& pins) {
    if (now_ - powered_ < options_.power_up) fail("a command within the time of power-up");
    if (now_ < busy_) fail("a command while a refresh or a change of mode takes its time");
    if (pins.ba >= options_.banks) {
        fail("no such bank");
        return;
    }
    const unsigned code = pins.ras_n << 2 | pins.cas_n << 1 | pins.we_n;
    switch (code) {
        case 0b011: activate(pins); break;
        case 0b101: access(pins, false); break;
        case 0b100: access(pins, true); break;
        case 0b010:
            precharges_++;
            for (unsigned bank = 0; bank < options_.banks; bank++)
                if (pins.a >> 10 & 1 || bank == pins.ba) precharge(bank);
            if (pins.a >> 10 & 1) precharged_ = true;
            break;
        case 0b001: refresh(); break;
        case 0b000: mode(pins); break;
        case 0b110: burst_.left = 0; break;
    }
}

void SdrChip::activate(const SdrPins& pins) {
    Bank& bank = banks_[pins.ba];
    if (!ready_) fail("ACT before the mode register was loaded after two refreshes");
    if (bank.open) fail("ACT of a bank that is open");
    if (now_ < bank.free) fail("ACT within tRP");
    if (int64_t(now_) - bank.opened < int64_t(options_.rc)) fail("ACT within tRC");
    if (activates_ && now_ - last_activate_ < options_.rrd) fail("ACT within tRRD");
    if (pins.a >= options_.rows) fail("no such row");
    bank.open = true;
    bank.row = pins.a;
    bank.opened = int64_t(now_);
    last_activate_ = now_;
    activates_++;
}

void SdrChip::access(const SdrPins& pins, bool write) {
    Bank& bank = banks_[pins.ba];
    if (!ready_ || !bank.open) {
        fail("READ or WRITE of a bank that is closed");
        return;
    }
    if (int64_t(now_) - bank.opened < int64_t(options_.rcd)) fail("READ or WRITE within tRCD");
    if (burst_.left && burst_.precharge) fail("a burst with auto-precharge is interrupted");
    const uint64_t column = pins.a & 0x3FF;
    burst_ = {write, burst_length_, pins.ba, column, 0, bool(pins.a >> 10 & 1)};
    (write ? writes_ : reads_)++;
}

void SdrChip::precharge(unsigned index) {
    Bank& bank = banks_[index];
    if (!bank.open) return;
    if (int64_t(now_) - bank.opened < int64_t(options_.ras)) fail("PRE within tRAS");
    if (int64_t(now_) - bank.written < int64_t(options_.wr)) fail("PRE within tWR");
    if (burst_.left && burst_.bank == index) burst_.left = 0;
    bank.open = false;
    bank.free = std::max<uint64_t>(bank.free, now_ + options_.rp);
}

void SdrChip::refresh() {
    for (const Bank& bank : banks_) {
        if (bank.open) fail("refresh while a bank is open");
        if (now_ < bank.free) fail("refresh within tRP");
    }
    if (!precharged_) fail("refresh before all banks were closed");
    busy_ = now_ + options_.rfc;
    refreshes_++;
    refreshes_since_++;
}

void SdrChip::mode(const SdrPins& pins) {
    for (const Bank& bank : banks_)
        if (bank.open || now_ < bank.free) fail("the mode is changed while a bank is open");
    busy_ = now_ + options_.mrd;
    burst_length_ = 1u << (pins.a & 7);
    cl_ = pins.a >> 4 & 7;
    if ((pins.a & 7) > 3) fail("mode register: a burst length of a page is not modelled");
    if (pins.a >> 3 & 1) fail("mode register: interleaved bursts are not modelled");
    if (cl_ < options_.cl_min || cl_ > 3)
        fail("mode register: a CAS latency of " + std::to_string(cl_) + " at this clock");
    // LiteDRAM sets a bit once that means nothing to these chips; with it the mode is not used.
    if (refreshes_since_ >= 2 && !(pins.a >> 7)) {
        ready_ = true;
        refresh_start_ = now_;
        refreshes_since_ = 0;
    }
}

void SdrChip::move(const SdrPins& pins) {
    if (!burst_.left) return;
    Bank& bank = banks_[burst_.bank];
    const uint64_t within = (burst_.column + burst_.index) & (burst_length_ - 1);
    const uint64_t column = (burst_.column & ~uint64_t(burst_length_ - 1)) | within;
    uint8_t* word = storage_ + address(burst_.bank, column);
    if (burst_.write) {
        for (uint64_t byte = 0; byte < options_.bus_bytes; byte++) {
            if (pins.dm >> byte & 1) continue;
            if ((pins.dq_oe >> 8 * byte & 0xFF) != 0xFF) fail("WRITE of an undriven bus");
            word[byte] = uint8_t(pins.dq >> 8 * byte);
        }
        bank.written = int64_t(now_);
    } else {
        Drive& place = drive_[(now_ + cl_) % 8];
        place.valid = true;
        place.data = 0;
        for (uint64_t byte = 0; byte < options_.bus_bytes; byte++)
            place.data |= uint64_t(word[byte]) << 8 * byte;
    }
    words_++;
    burst_.index++;
    if (--burst_.left == 0 && burst_.precharge) {
        // The chip closes the row when the burst is over and tRAS has passed.
        const uint64_t close =
            std::max<int64_t>(int64_t(now_) + int64_t(burst_.write ? options_.wr : 0),
                              bank.opened + int64_t(options_.ras));
        bank.open = false;
        bank.free = close + options_.rp;
    }
}

void SdrChip::reset_statistics() {
    reads_ = writes_ = activates_ = precharges_ = words_ = refreshes_ = 0;
    since_ = now_;
}

std::string SdrChip::statistics() const {
    char text[400];
    std::snprintf(text, sizeof text,
                  "{\"clocks\": %llu, \"reads\": %llu, \"writes\": %llu, \"activates\": %llu, "
                  "\"precharges\": %llu, \"refreshes\": %llu, \"words\": %llu}",
                  (unsigned long long)(now_ - since_), (unsigned long long)reads_,
                  (unsigned long long)writes_, (unsigned long long)activates_,
                  (unsigned long long)precharges_, (unsigned long long)refreshes_,
                  (unsigned long long)words_);
    return text;
}

}  // namespace headrace
