// Everything about the memory and its checker that can be set.
#pragma once

#include <cstdint>
#include <string>

namespace headrace {

constexpr unsigned kClasses = 8;  // Traffic classes that a transaction's ID can name.

enum Reorder { kInOrder = 0, kBursts = 1, kBeats = 2 };

struct AxiOptions {
    unsigned read_latency = 60;   // cycles from AR to the first beat, at least 1
    unsigned write_latency = 60;  // cycles from the last of AW and WLAST to B, at least 1
    double bandwidth = 1.0;       // beats per cycle, each direction for itself
    double stall_probability = 0.0;
    uint64_t stall_seed = 0;
    unsigned reorder = kInOrder;  // transactions of different IDs may overtake each other
    unsigned depth = 64;          // bursts of each direction that the memory accepts ahead
    // Limits of the master that the checker enforces.
    unsigned classes = 6;
    unsigned max_burst_beats = 256;
    unsigned max_reads = 0;   // outstanding bursts; 0: no limit
    unsigned max_writes = 0;

    // Returns whether there is an option of that name. Values are exact up to 2**53.
    bool set(const std::string& name, double value) {
        const auto whole = static_cast<uint64_t>(value);
        const auto count = static_cast<unsigned>(whole);
        if (name == "read_latency") read_latency = count;
        else if (name == "write_latency") write_latency = count;
        else if (name == "bandwidth") bandwidth = value;
        else if (name == "stall_probability") stall_probability = value;
        else if (name == "stall_seed") stall_seed = whole;
        else if (name == "reorder") reorder = count;
        else if (name == "depth") depth = count;
        else if (name == "classes") classes = count;
        else if (name == "max_burst_beats") max_burst_beats = count;
        else if (name == "max_reads") max_reads = count;
        else if (name == "max_writes") max_writes = count;
        else return false;
        return true;
    }
};

}  // namespace headrace
