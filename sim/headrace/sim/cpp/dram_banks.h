// The timing rules of a DRAM: when each command is allowed next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dram_options.h"

namespace headrace {

enum class DramCommand : uint64_t { kActivate, kPrecharge, kPrechargeAll, kRead, kWrite, kRefresh };

// One rank. Banks are numbered with the bank group in the low bits.
class DramBanks {
public:
    static constexpr uint64_t kClosed = ~uint64_t{0};
    static constexpr uint64_t kNever = ~uint64_t{0};

    // All banks are closed and nothing is owed.
    void reset(const DramOptions& options);

    uint64_t open_row(unsigned bank) const { return banks_[bank].row; }
    unsigned open_count() const { return open_count_; }

    // First clock at which a command is allowed.
    uint64_t activate_at(unsigned bank) const;
    uint64_t precharge_at(unsigned bank) const {
        return std::max(banks_[bank].precharge, row_bus_);
    }
    uint64_t column_at(unsigned bank, bool write) const;
    uint64_t precharge_all_at() const;
    uint64_t refresh_at() const;

    // Issue a command at a clock at which it is allowed.
    void activate(unsigned bank, uint64_t row, uint64_t now);
    void precharge(unsigned bank, uint64_t now);
    void precharge_all(uint64_t now);
    void column(unsigned bank, bool write, uint64_t now);
    void refresh(uint64_t now);

private:
    struct Bank {
        uint64_t row = kClosed;
        uint64_t activate = 0, precharge = 0, column = 0;
    };
    struct Group {
        uint64_t activate = 0, read = 0, write = 0;
    };

    void occupy(uint64_t& bus, uint64_t until);

    DramOptions options_;
    unsigned group_mask_ = 0, open_count_ = 0;
    std::vector<Bank> banks_;
    std::vector<Group> groups_;
    Group any_;                    // what holds across bank groups
    uint64_t window_[4] = {};      // ends of the tFAW windows of the last four ACTs
    unsigned oldest_ = 0;
    uint64_t row_bus_ = 0, column_bus_ = 0;
};

}  // namespace headrace
