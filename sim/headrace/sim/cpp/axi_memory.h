// An AXI4 slave in front of a memory that the host shares.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "address_map.h"
#include "axi_checker.h"
#include "axi_options.h"
#include "axi_signals.h"
#include "axi_statistics.h"
#include "dram_timing.h"
#include "pacing.h"

namespace headrace {

// One port. `tick` takes the signals at a rising edge and returns what the memory drives until the
// next; nothing is combinational.
//
// Among the orders that AXI allows, the one that forgives least: a read returns what was stored when
// its address was accepted, and a write is stored when its response is first presented. A master
// that reads back before its write response sees the old bytes.
class AxiMemory {
public:
    AxiMemory(uint8_t* data, uint64_t base, uint64_t bytes, unsigned bus_bytes);

    const AxiOutputs& tick(const AxiInputs& in);

    // Change an option; takes effect at once, and restarts the random stalls. False: no such name.
    bool set(const std::string& option, double value);

    // The broken rule, empty while there is none. After a violation the memory answers nothing.
    const std::string& violation() const { return checker_.violation(); }
    // Go on after a violation; the master must be reset first.
    void clear_violation() { checker_.clear(); }

    AddressMap& map() { return map_; }
    uint64_t cycles() const { return cycle_; }
    unsigned bus_bytes() const { return bus_bytes_; }
    // Statistics as a JSON object; with a DRAM it has a member `dram`.
    std::string report() const;
    DramTiming& dram() { return dram_; }
    void reset_statistics();

private:
    struct Burst {
        uint64_t addr;
        uint32_t id;
        unsigned beats, taken;
        uint64_t due;    // cycle from which the memory may answer
        bool accepted;   // writes: the address handshake is done
        uint64_t ticket; // with a DRAM: of its read, or of its write once the data is complete
        std::vector<uint8_t> data, strobes;
    };

    static constexpr size_t kNoBurst = ~size_t{0};

    void configure();
    void forget();
    void take_read_address(const AxiInputs& in);
    void take_read_data(const AxiInputs& in);
    void offer_read_data();
    void take_write_address(const AxiInputs& in);
    void take_write_data(const AxiInputs& in);
    void take_write_response(const AxiInputs& in);
    void offer_write_response();
    void open_ready();
    void store(const Burst& burst);
    bool answerable(const Burst& burst, bool write);
    bool arrived(const Burst& burst);
    size_t choose(const std::deque<Burst>& bursts, bool write);
    Burst start(const AxiAddress& address);

    AddressMap map_;
    AxiOptions options_;
    unsigned bus_bytes_;
    AxiChecker checker_;
    AxiStatistics statistics_;
    DramTiming dram_;  // decides on times instead of latency and bandwidth where enabled
    AxiOutputs out_;
    uint64_t cycle_ = 0;  // rising edges, resets included

    std::deque<Burst> reads_;
    size_t reading_ = 0;        // the burst whose beat is offered or was offered last
    bool inside_burst_ = false;
    std::deque<Burst> writes_;
    unsigned unaccepted_ = 0;   // 1 while an offered write address waits for READY
    size_t responding_ = 0;

    Stalls ar_stalls_, r_stalls_, aw_stalls_, w_stalls_, b_stalls_;
    Budget read_budget_, write_budget_;
    Random order_;
    std::vector<std::vector<uint8_t>> spare_;  // buffers of bursts that ended
};

}  // namespace headrace
