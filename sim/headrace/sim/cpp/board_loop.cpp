// The compiled loop of a board: clocks, reset, and the two wires of its UART.
#include <cstdint>
#include <vector>

#include "clocked_top.h"

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

namespace {

// A board without its DRAM controller is told that memory is ready.
template <class Top>
auto set_memory_ready(Top& top, bool level, int) -> decltype(top.memory_ready, void()) {
    top.memory_ready = level;
}
template <class Top>
void set_memory_ready(Top&, bool, long) {}

template <class Top>
auto get_ready(const Top& top, int) -> decltype(top.ready, true) {
    return top.ready;
}
template <class Top>
bool get_ready(const Top&, long) {
    return true;
}

// Why a call came back; uart_loop.py holds the same numbers.
enum Stop : int { kCycles = 0, kReceived = 1, kViolation = 2 };

class Board : headrace::ClockedTop {
public:
    Board(uint64_t chip, unsigned divisor, const char* trace) : divisor_{divisor} {
        top_.rx = 1;
        top_.eval();
        top_.memory = chip;
        begin_trace(trace);
    }

    void reset(unsigned cycles) {
        out_.clear();
        in_.clear();
        sent_ = 0;
        shift_ = sample_ = 0;
        bits_left_ = bit_ = wait_ = 0;
        top_.rx = 1;
        top_.rst = 1;
        settle();
        for (unsigned cycle = 0; cycle < cycles; cycle++) tick();
        top_.rst = 0;
        settle();
    }

    void send(const uint8_t* data, uint64_t size) {
        if (sent_ == out_.size()) {
            out_.clear();
            sent_ = 0;
        }
        out_.insert(out_.end(), data, data + size);
    }

    // Until so many bytes have come in all, or for so many cycles.
    Stop run(uint64_t cycles, uint64_t received) {
        for (uint64_t cycle = 0; cycle < cycles; cycle++) {
            if (top_.violation) return kViolation;
            if (received && in_.size() >= received) return kReceived;
            transmit();
            tick();
            receive();
        }
        if (top_.violation) return kViolation;
        return received && in_.size() >= received ? kReceived : kCycles;
    }

    uint64_t take(uint8_t* data, uint64_t size) {
        const uint64_t count = size < in_.size() ? size : in_.size();
        for (uint64_t index = 0; index < count; index++) data[index] = in_[index];
        in_.erase(in_.begin(), in_.begin() + int64_t(count));
        return count;
    }
    uint64_t received() const { return in_.size(); }
    // Bytes that have not left yet; the one on the wire counts.
    uint64_t unsent() const { return out_.size() - sent_ + (bits_left_ != 0); }
    uint64_t cycles() const { return cycles_; }
    int ready() const { return get_ready(top_, 0); }
    void memory_ready(bool ready) {
        set_memory_ready(top_, ready, 0);
        settle();
    }

private:
    // The host's transmitter: a start bit, eight bits, a stop bit, `divisor_` cycles each.
    void transmit() {
        if (wait_ != 0) {
            wait_--;
            return;
        }
        bool level = true;
        if (bits_left_ == 0) {
            if (sent_ == out_.size()) return;
            shift_ = unsigned(out_[sent_++]) << 1 | 1u << 9;
            bits_left_ = 10;
        }
        level = shift_ & 1;
        shift_ >>= 1;
        bits_left_--;
        wait_ = divisor_ - 1;
        if (top_.rx != level) {
            top_.rx = level;
            settle();
        }
    }

    // The host's receiver: samples each bit in its middle.
    void receive() {
        const bool level = top_.tx;
        if (bit_ == 0) {
            if (level) return;
            bit_ = 1;
            sample_ = divisor_ + divisor_ / 2;
            byte_ = 0;
        }
        if (--sample_ != 0) return;
        sample_ = divisor_;
        if (bit_ == 9) {
            if (level) in_.push_back(uint8_t(byte_));
            bit_ = 0;
            return;
        }
        byte_ |= unsigned(level) << (bit_ - 1);
        bit_++;
    }

    void tick() {
        cycles_++;
        edge();
    }

    const unsigned divisor_;
    std::vector<uint8_t> out_, in_;
    uint64_t sent_ = 0, cycles_ = 0;
    unsigned shift_ = 0, bits_left_ = 0, wait_ = 0;
    unsigned sample_ = 0, bit_ = 0, byte_ = 0;
};

}  // namespace

// `divisor` is the time of a bit in cycles; `trace` names a VCD file, or is null.
HEADRACE_API Board* headrace_board_new(uint64_t chip, unsigned divisor, const char* trace) {
    return new Board{chip, divisor, trace};
}
HEADRACE_API void headrace_board_delete(Board* board) { delete board; }
HEADRACE_API void headrace_board_reset(Board* board, unsigned cycles) { board->reset(cycles); }
HEADRACE_API void headrace_board_send(Board* board, const uint8_t* data, uint64_t size) {
    board->send(data, size);
}
HEADRACE_API int headrace_board_run(Board* board, uint64_t cycles, uint64_t received) {
    return board->run(cycles, received);
}
HEADRACE_API uint64_t headrace_board_take(Board* board, uint8_t* data, uint64_t size) {
    return board->take(data, size);
}
HEADRACE_API uint64_t headrace_board_received(Board* board) { return board->received(); }
HEADRACE_API uint64_t headrace_board_unsent(Board* board) { return board->unsent(); }
HEADRACE_API int headrace_board_ready(Board* board) { return board->ready(); }
HEADRACE_API uint64_t headrace_board_cycles(Board* board) { return board->cycles(); }
HEADRACE_API void headrace_board_memory_ready(Board* board, int ready) {
    board->memory_ready(ready != 0);
}
