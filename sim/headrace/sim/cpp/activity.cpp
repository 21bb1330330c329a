// Log of the activity port: what the engines do, in bounded memory.
//
// States and amounts are summed over intervals of the run; when all intervals are in use, pairs are
// joined and the interval doubles. Begin and end of each instruction on each engine are kept as
// marks, up to a number. Time is the number of cycles that the device's counters have counted.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

namespace {

// Order of headrace.hw.activity.TRACKS; reads come first, in the order of the port's field.
enum Track : unsigned { kReads = 4, kMatmul = 4, kVector = 5, kSequencer = 6, kTracks = 7 };

// The words of a layout that Python hands over.
struct Layout {
    unsigned states, amounts, port_busy, matmul_busy, vector_idle, sequencer_busy, sequencer_idle;
};

struct Mark {
    uint64_t begin, end;
};

struct Sequence {
    std::vector<uint64_t> beats;  // of each instruction that is still to come; reads only
    std::size_t next = 0;
    uint64_t left = 0;
    bool open = false;
    uint64_t begin = 0, strays = 0, dropped = 0;
    std::vector<Mark> marks;
};

struct Recorder {
    Layout layout;
    std::size_t max_intervals, max_marks;
    unsigned width_log2 = 0;
    uint64_t cycle = 0, last_busy = 0;
    std::vector<uint64_t> sums;  // [interval][state or amount]
    std::array<Sequence, kTracks> tracks;

    unsigned columns() const { return layout.states + layout.amounts; }

    void close(Sequence& track, uint64_t end) {
        if (track.marks.size() < max_marks) track.marks.push_back({track.begin, end});
        else track.dropped++;
        track.open = false;
    }

    void open(Sequence& track, uint64_t begin) {
        track.open = true;
        track.begin = begin;
    }

    void join() {
        const std::size_t count = sums.size() / columns();
        for (std::size_t at = 0; at < count; at += 2)
            for (unsigned column = 0; column < columns(); column++)
                sums[at / 2 * columns() + column] =
                    sums[at * columns() + column] +
                    (at + 1 < count ? sums[(at + 1) * columns() + column] : 0);
        sums.resize((count + 1) / 2 * columns());
        width_log2++;
    }

    void read(Sequence& track) {
        if (!track.open) {
            if (track.next == track.beats.size()) {
                track.strays++;
                return;
            }
            track.left = track.beats[track.next++];
            open(track, cycle);
        }
        if (--track.left == 0) close(track, cycle + 1);
    }

    void tick(const uint32_t* port) {
        const uint32_t word = *port++;
        const auto bit = [word](unsigned at) { return word >> at & 1; };
        if (!bit(layout.states)) return;  // counters do not count

        while (cycle >> width_log2 >= max_intervals) join();
        const std::size_t at = (cycle >> width_log2) * columns();
        if (at == sums.size()) sums.resize(at + columns());
        uint64_t* sum = &sums[at];
        for (uint32_t rest = word & ((1u << layout.states) - 1); rest; rest &= rest - 1)
            sum[__builtin_ctz(rest)]++;
        for (unsigned index = 0; index < layout.amounts; index++)
            sum[layout.states + index] += static_cast<int64_t>(static_cast<int32_t>(port[index]));

        if (bit(layout.port_busy)) read(tracks[word >> (layout.states + 3) & 3]);

        // The array goes from one instruction to the next without a gap, or stands between them.
        auto& matmul = tracks[kMatmul];
        if (bit(layout.matmul_busy)) last_busy = cycle + 1;
        if (bit(layout.states + 1)) {
            if (matmul.open) close(matmul, last_busy);
            open(matmul, cycle + 1);
        }

        auto& vector = tracks[kVector];
        if (!vector.open && !bit(layout.vector_idle)) open(vector, cycle);
        if (bit(layout.states + 2)) close(vector, cycle + 1);

        auto& sequencer = tracks[kSequencer];
        if (!sequencer.open && !bit(layout.sequencer_idle)) open(sequencer, cycle);
        if (bit(layout.sequencer_busy)) close(sequencer, cycle + 1);
        cycle++;
    }
};

// By the handle of the design's memory: there is one only while something is recorded.
std::map<uint64_t, Recorder>& recorders() {
    static std::map<uint64_t, Recorder> all;
    return all;
}

}  // namespace

// Begin to record, from nothing. `layout` holds the members of Layout in order.
HEADRACE_API void headrace_activity_begin(uint64_t memory, const unsigned* layout,
                                          uint64_t max_intervals, uint64_t max_marks) {
    Recorder recorder{};
    recorder.layout = {layout[0], layout[1], layout[2], layout[3],
                       layout[4], layout[5], layout[6]};
    recorder.max_intervals = max_intervals;
    recorder.max_marks = max_marks;
    recorders()[memory] = recorder;
}

HEADRACE_API void headrace_activity_end(uint64_t memory) { recorders().erase(memory); }

// Beats, at least one, that each instruction of a sequence of reads takes in the next run.
HEADRACE_API void headrace_activity_plan(uint64_t memory, unsigned track, const uint64_t* beats,
                                         uint64_t count) {
    auto& sequence = recorders().at(memory).tracks.at(track);
    sequence.beats.assign(beats, beats + count);
    sequence.next = 0;
    sequence.open = false;
}

// After a run: the last instruction of the array has ended, and nothing is under way.
HEADRACE_API void headrace_activity_settle(uint64_t memory) {
    auto& recorder = recorders().at(memory);
    auto& matmul = recorder.tracks[kMatmul];
    if (matmul.open) recorder.close(matmul, recorder.last_busy);
    for (auto& track : recorder.tracks) track.open = false;
}

HEADRACE_API uint64_t headrace_activity_cycles(uint64_t memory) {
    return recorders().at(memory).cycle;
}

// Sums by interval, valid until the clock runs again; `width` is the interval in cycles.
HEADRACE_API const uint64_t* headrace_activity_sums(uint64_t memory, uint64_t* width,
                                                    uint64_t* count) {
    const auto& recorder = recorders().at(memory);
    *width = uint64_t{1} << recorder.width_log2;
    *count = recorder.sums.size() / recorder.columns();
    return recorder.sums.data();
}

// Marks of a track, pairs of begin and end; beats without an instruction, and marks that found no
// room.
HEADRACE_API const uint64_t* headrace_activity_marks(uint64_t memory, unsigned track,
                                                     uint64_t* count, uint64_t* strays,
                                                     uint64_t* dropped) {
    const auto& sequence = recorders().at(memory).tracks.at(track);
    *count = sequence.marks.size();
    *strays = sequence.strays;
    *dropped = sequence.dropped;
    return sequence.marks.empty() ? nullptr : &sequence.marks.data()->begin;
}

// One rising edge.
HEADRACE_API void headrace_activity_tick(uint64_t memory, const uint32_t* port) {
    auto& all = recorders();
    const auto found = all.find(memory);
    if (found != all.end()) found->second.tick(port);
}
