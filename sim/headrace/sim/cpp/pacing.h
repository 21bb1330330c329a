// Random stalls and the bandwidth cap.
#pragma once

#include <cstdint>

namespace headrace {

// xorshift64*: small, fast, and the same everywhere.
class Random {
public:
    explicit Random(uint64_t seed = 0) { reseed(seed); }

    void reseed(uint64_t seed) {
        // Two steps of splitmix64 spread neighbouring seeds over the state, which must not be zero.
        state_ = mix(mix(seed + 0x9E3779B97F4A7C15u)) | 1;
    }
    uint32_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Du) >> 32);
    }

private:
    static uint64_t mix(uint64_t value) {
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
        return value ^ (value >> 31);
    }
    uint64_t state_ = 1;
};

// Stalls of one channel. Cycles are drawn per transfer and count down only while a transfer waits:
// so the stalls depend on what was transferred before and never on how long the port idled, and a
// master that holds VALID back until READY hangs.
class Stalls {
public:
    // Each further cycle of a stall has the given probability, from 0 (never) up to 0.95.
    void configure(uint64_t seed, double probability) {
        threshold_ = static_cast<uint32_t>((probability > 0.95 ? 0.95 : probability) * 4294967295.0);
        random_.reseed(seed);
        draw();
    }
    // A transfer waits in this cycle.
    void wait() { left_ -= left_ > 0; }
    // A transfer took place: draw the stall of the next.
    void transferred() { draw(); }
    bool open() const { return left_ == 0; }

private:
    void draw() {
        left_ = 0;
        if (threshold_ == 0) return;
        while (random_.next() < threshold_) left_++;
    }
    Random random_;
    uint32_t threshold_ = 0;
    unsigned left_ = 0;
};

// Bandwidth cap: each cycle earns a fraction of a beat, each beat spends one. At most two beats are
// saved up: that much keeps any fraction exact, and no idle phase is paid back later.
class Budget {
public:
    void configure(double fraction) {
        rate_ = static_cast<uint64_t>(fraction * kBeat + 0.5);
        if (rate_ > kBeat) rate_ = kBeat;
        if (rate_ == 0) rate_ = 1;
    }
    void earn() {
        credit_ += rate_;
        if (credit_ > 2 * kBeat) credit_ = 2 * kBeat;
    }
    bool open() const { return credit_ >= kBeat; }
    void spend() { credit_ -= kBeat; }
    void refill() { credit_ = 2 * kBeat; }

private:
    static constexpr uint64_t kBeat = uint64_t{1} << 32;
    uint64_t rate_ = kBeat;
    uint64_t credit_ = 2 * kBeat;
};

}  // namespace headrace
