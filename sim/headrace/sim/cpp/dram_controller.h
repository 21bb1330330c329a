// The command scheduler of a DRAM controller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dram_banks.h"
#include "dram_options.h"

namespace headrace {

// One READ or WRITE that waits for its turn.
struct DramRequest {
    enum Row : uint8_t { kHit, kMiss, kConflict };

    uint64_t access;       // address / bytes of an access
    uint64_t ticket;       // the burst, and which of its accesses
    unsigned index;
    unsigned bank;
    uint64_t row;
    uint64_t since;
    Row state;             // what became of its row on its behalf
};

struct DramStatistics {
    uint64_t clocks = 0;
    uint64_t reads = 0, writes = 0;                  // commands
    uint64_t hits = 0, misses = 0, conflicts = 0;    // they add up to reads + writes
    uint64_t activates = 0, precharges = 0, refreshes = 0;
    uint64_t turnarounds = 0;                        // changes of the data bus's direction
    uint64_t forwarded = 0;                          // reads answered from the write queue
    uint64_t merged = 0;                             // writes that joined one in the queue

    std::string json() const;
};

// A command as it was issued.
struct DramRecord {
    uint64_t clock, command, bank, row;
};

// Queues of reads and writes, served first-ready first-come first-served: the oldest whose row is
// open and whose command is allowed, else the oldest of a bank that wants another row. Rows stay
// open. Reads go first; writes gather, and go in batches between two levels of their queue, or when
// there was no read for a while. When a refresh is due nothing else starts.
class DramController {
public:
    void reset(const DramOptions& options);

    // Advance by one clock. Where reads have been issued, `done` gets them.
    struct Done {
        uint64_t ticket;
        unsigned index;
        uint64_t clock;    // data has arrived
    };
    void step(std::vector<Done>& done) {
        now_++;
        statistics.clocks++;
        if (now_ >= next_try_) run(done);
    }

    uint64_t now() const { return now_; }
    bool read_room() const { return reads_.size() < options_.read_queue; }
    bool write_room() const { return writes_.size() < options_.write_queue; }
    // Whether a write to that access waits in the queue.
    bool holds(uint64_t access) const;
    void add(uint64_t access, uint64_t ticket, unsigned index, bool write);

    DramStatistics statistics;
    bool recording = false;
    std::vector<DramRecord> records;

private:
    void run(std::vector<Done>& done);
    bool refresh();
    void choose_direction();
    bool serve_columns(std::vector<DramRequest>& queue, std::vector<Done>& done);
    bool serve_rows(std::vector<DramRequest>& queue);
    void record(DramCommand command, unsigned bank, uint64_t row) {
        if (recording) records.push_back({now_, static_cast<uint64_t>(command), bank, row});
    }
    // Whether a bank must wait because banks take turns.
    bool locked(unsigned bank) {
        return options_.serial != 0 && bank != last_bank_ && wait(last_column_ + options_.serial);
    }
    // Requests at the head of a queue that commands are chosen for.
    size_t visible(const std::vector<DramRequest>& queue) const {
        return options_.serial != 0 && !queue.empty() ? 1 : queue.size();
    }
    bool wait(uint64_t at) {
        if (at <= now_) return false;
        next_try_ = std::min(next_try_, at);
        return true;
    }

    DramOptions options_;
    DramBanks banks_;
    std::vector<DramRequest> reads_, writes_;  // the oldest first
    uint64_t now_ = 0;
    uint64_t next_try_ = 0;     // nothing can happen before
    uint64_t refresh_due_ = 0;
    uint64_t last_read_ = 0;    // the last clock with a read in the queue
    bool writing_ = false;      // which queue is served
    bool bus_writes_ = false;   // direction of the last data
    unsigned last_bank_ = 0;    // of the last access
    uint64_t last_column_ = 0;  // its clock
    uint64_t hit_banks_ = 0;    // one bit each: the open row is still wanted
};

}  // namespace headrace
