// When a DRAM delivers and takes the data of AXI bursts.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dram_controller.h"
#include "dram_options.h"

namespace headrace {

// Time only: data never passes through here.
//
// A burst is split into accesses, which enter the queues in the order of the bursts as far as
// there is room. Reads come back in any order and wait in a buffer, so that the port can have them
// in the order asked. A write is answered once all its accesses are in the write queue, and a read
// of what is there is answered from it.
class DramTiming {
public:
    // Change an option; the DRAM starts over. False: no such name.
    bool set(const std::string& name, uint64_t value);
    bool enabled() const { return options_.enabled != 0; }
    void reset();

    // One clock of the port.
    void tick();

    // Ask for a burst; returns its ticket.
    uint64_t read(uint64_t addr, uint64_t bytes);
    // Whether the first `bytes` of a burst have arrived.
    bool arrived(uint64_t ticket, uint64_t bytes);
    // The port has the first `bytes` of a burst, and with `last` all of it.
    void take(uint64_t ticket, uint64_t bytes, bool last);

    // A burst whose data is complete; returns its ticket.
    uint64_t write(uint64_t addr, uint64_t bytes);
    // Whether it can be answered.
    bool written(uint64_t ticket) const;
    // Whether there is room for more data.
    bool write_room() const { return write_backlog_ == writes_.size(); }

    DramController& controller() { return controller_; }
    const DramController& controller() const { return controller_; }

private:
    static constexpr uint64_t kPending = ~uint64_t{0};  // a clock that never comes

    struct Read {
        uint64_t addr, first;         // first access
        std::vector<uint64_t> done;   // clock at which each has arrived
        size_t ready, taken;          // accesses from the first on
    };
    struct Write {
        uint64_t first;
        unsigned count, entered;
        uint64_t done;
    };

    size_t accesses(uint64_t addr, uint64_t bytes) const {
        return ((addr + bytes - 1) >> options_.access_log2) - (addr >> options_.access_log2) + 1;
    }
    void fill();
    void fill_reads();
    void fill_writes();

    DramOptions options_;
    DramController controller_;
    uint64_t phase_ = 0;  // fraction of a memory clock, in units of 1 / ratio_den

    // Bursts by ticket; tickets of bursts that are over, or were forgotten, are below the first.
    std::deque<Read> reads_;
    uint64_t first_read_ = 1;  // 0 is the ticket of a burst from before there was a DRAM
    size_t read_backlog_ = 0;    // index of the burst that enters next, and of its access
    size_t read_index_ = 0;
    uint64_t buffered_ = 0;      // accesses asked for and not taken
    std::deque<Write> writes_;
    uint64_t first_write_ = 1;
    size_t write_backlog_ = 0;
    std::vector<DramController::Done> done_;
};

}  // namespace headrace
