#include "dram_timing.h"

namespace headrace {

bool DramTiming::set(const std::string& name, uint64_t value) {
    bool changed = false;
    if (!options_.set(name, value, changed)) return false;
    if (changed) reset();
    return true;
}

void DramTiming::reset() {
    first_read_ += reads_.size();
    first_write_ += writes_.size();
    reads_.clear();
    writes_.clear();
    read_backlog_ = read_index_ = write_backlog_ = 0;
    buffered_ = phase_ = 0;
    controller_.reset(options_);
}

void DramTiming::tick() {
    phase_ += options_.ratio_num;
    while (phase_ >= options_.ratio_den) {
        phase_ -= options_.ratio_den;
        fill();
        controller_.step(done_);
        for (const DramController::Done& done : done_) {
            reads_[done.ticket - first_read_].done[done.index] = done.clock;
        }
        done_.clear();
    }
    while (!writes_.empty() && writes_.front().done <= controller_.now()) {
        writes_.pop_front();
        first_write_++;
        write_backlog_--;
    }
}

void DramTiming::fill() {
    if (write_backlog_ < writes_.size()) fill_writes();
    if (read_backlog_ < reads_.size()) fill_reads();
}

void DramTiming::fill_reads() {
    while (read_backlog_ < reads_.size()) {
        Read& read = reads_[read_backlog_];
        if (buffered_ >= options_.read_buffer || !controller_.read_room()) return;
        const uint64_t access = read.first + read_index_;
        if (controller_.holds(access)) {
            read.done[read_index_] = controller_.now() + options_.controller;
            controller_.statistics.forwarded++;
        } else {
            controller_.add(access, first_read_ + read_backlog_,
                            static_cast<unsigned>(read_index_), false);
        }
        buffered_++;
        if (++read_index_ == read.done.size()) {
            read_index_ = 0;
            read_backlog_++;
        }
    }
}

void DramTiming::fill_writes() {
    while (write_backlog_ < writes_.size()) {
        Write& write = writes_[write_backlog_];
        const uint64_t access = write.first + write.entered;
        if (controller_.holds(access)) {
            controller_.statistics.merged++;
        } else {
            if (!controller_.write_room()) return;
            controller_.add(access, 0, 0, true);
        }
        if (++write.entered == write.count) {
            write.done = controller_.now() + options_.controller;
            write_backlog_++;
        }
    }
}

uint64_t DramTiming::read(uint64_t addr, uint64_t bytes) {
    reads_.push_back({addr, addr >> options_.access_log2,
                      std::vector<uint64_t>(accesses(addr, bytes), kPending), 0, 0});
    return first_read_ + reads_.size() - 1;
}

bool DramTiming::arrived(uint64_t ticket, uint64_t bytes) {
    if (ticket < first_read_) return true;
    Read& read = reads_[ticket - first_read_];
    const size_t needed = accesses(read.addr, bytes);
    while (read.ready < needed && read.done[read.ready] <= controller_.now()) {
        read.ready++;
    }
    return read.ready >= needed;
}

void DramTiming::take(uint64_t ticket, uint64_t bytes, bool last) {
    if (ticket < first_read_) return;
    Read& read = reads_[ticket - first_read_];
    // The buffer has room for another access once the last byte of one is out.
    const size_t taken = last ? read.done.size()
                              : ((read.addr + bytes) >> options_.access_log2) - read.first;
    buffered_ -= taken - read.taken;
    read.taken = taken;
    while (!reads_.empty() && reads_.front().taken == reads_.front().done.size()) {
        reads_.pop_front();
        first_read_++;
        read_backlog_--;
    }
}

uint64_t DramTiming::write(uint64_t addr, uint64_t bytes) {
    writes_.push_back({addr >> options_.access_log2,
                       static_cast<unsigned>(accesses(addr, bytes)), 0, kPending});
    return first_write_ + writes_.size() - 1;
}

bool DramTiming::written(uint64_t ticket) const {
    if (ticket < first_write_) return true;
    return writes_[ticket - first_write_].done <= controller_.now();
}

}  // namespace headrace
