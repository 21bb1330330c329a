// The rules that an AXI4 master must keep.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "address_map.h"
#include "axi_options.h"
#include "axi_signals.h"

namespace headrace {

// Watches one port. The first broken rule stays in `violation` until the checker is cleared.
//
// Stricter than AXI4 on purpose, since our masters promise more: bursts are INCR, of full bus width
// and aligned to it, IDs are traffic classes, and write data never comes before its address.
class AxiChecker {
public:
    AxiChecker(const AddressMap& map, const AxiOptions& options, unsigned bus_bytes);

    // Check the signals of one cycle. Call once per rising edge, before anything acts on them.
    void check(const AxiInputs& in, const AxiOutputs& out, uint64_t cycle);

    // Forget all transactions, the violation, and the signals of the cycle before.
    void clear();

    const std::string& violation() const { return violation_; }
    unsigned reads() const { return reads_; }
    unsigned writes() const { return writes_; }

private:
    void forget();
    void check_address(const AxiAddress& now, bool write);
    void check_stable(const AxiAddress& before, const AxiAddress& now, bool write);
    void check_write_data(const AxiInputs& in, const AxiOutputs& out);
    void count(const AxiInputs& in, const AxiOutputs& out);
    void remember(const AxiInputs& in, const AxiOutputs& out);
    void fail(const char* rule, uint64_t addr, const std::string& detail);

    struct Burst {
        uint64_t addr;
        unsigned beats, taken;
    };

    const AddressMap& map_;
    const AxiOptions& options_;
    unsigned bus_bytes_;
    unsigned size_;
    uint64_t cycle_ = 0;
    std::string violation_;

    std::deque<Burst> unwritten_;  // bursts whose address was offered and whose data is owed
    bool aw_offered_ = false;      // the newest of them is not accepted yet
    unsigned reads_ = 0, writes_ = 0;

    // The cycle before: what was stalled, and with which payload.
    bool was_reset_ = false;
    AxiAddress stalled_aw_{}, stalled_ar_{};
    bool stalled_w_ = false, stalled_last_ = false;
    std::vector<uint32_t> stalled_data_, stalled_strobe_;
};

}  // namespace headrace
