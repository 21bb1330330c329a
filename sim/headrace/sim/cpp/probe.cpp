// Log of the probe port: what instructions write, in order.
//
// The port is a word of flags, bit i for source i, and then the fields of all sources in whole
// words. A record of a source is the number of instructions that have ended before it, then its
// fields. Source 0 marks the end of an instruction.
#include <cstdint>
#include <map>
#include <vector>

#define HEADRACE_API extern "C" __attribute__((visibility("default"), used))

namespace {

struct Source {
    unsigned words;
    std::vector<uint32_t> records;
};

struct Probe {
    std::vector<Source> sources;
    uint32_t ended = 0;

    void tick(const uint32_t* port) {
        const uint32_t flags = *port++;
        for (unsigned index = 0; index < sources.size(); index++) {
            Source& source = sources[index];
            if (flags >> index & 1) {
                source.records.push_back(ended);
                source.records.insert(source.records.end(), port, port + source.words);
            }
            port += source.words;
        }
        ended += flags & 1;
    }
};

// By the handle of the design's memory: there is a probe only while something is recorded.
std::map<uint64_t, Probe>& probes() {
    static std::map<uint64_t, Probe> all;
    return all;
}

}  // namespace

// Begin to record, from nothing. `words` holds the sizes of the sources.
HEADRACE_API void headrace_probe_begin(uint64_t memory, const unsigned* words, unsigned sources) {
    Probe probe;
    for (unsigned index = 0; index < sources; index++) {
        probe.sources.push_back(Source{words[index], {}});
    }
    probes()[memory] = probe;
}

HEADRACE_API void headrace_probe_end(uint64_t memory) { probes().erase(memory); }

// Records of a source, valid until the clock runs again; `count` is their size in words.
HEADRACE_API const uint32_t* headrace_probe_records(uint64_t memory, unsigned source,
                                                    uint64_t* count) {
    const auto& records = probes()[memory].sources[source].records;
    *count = records.size();
    return records.data();
}

// One rising edge with any flag set.
HEADRACE_API void headrace_probe_tick(uint64_t memory, const uint32_t* port) {
    auto& all = probes();
    const auto found = all.find(memory);
    if (found != all.end()) found->second.tick(port);
}
