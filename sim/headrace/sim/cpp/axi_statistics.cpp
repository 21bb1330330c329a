#include "axi_statistics.h"

namespace headrace {

namespace {

std::string field(const char* name, uint64_t value) {
    return std::string{"\""} + name + "\": " + std::to_string(value);
}

std::string field(const char* name, const uint64_t (&values)[kClasses]) {
    std::string text = std::string{"\""} + name + "\": [";
    for (unsigned index = 0; index < kClasses; index++) {
        text += (index ? ", " : "") + std::to_string(values[index]);
    }
    return text + "]";
}

std::string traffic(const char* name, const AxiTraffic& traffic, uint64_t cycles) {
    return std::string{"\""} + name + "\": {" + field("bytes", traffic.bytes) + ", " +
           field("bursts", traffic.bursts) + ", " + field("beats", traffic.beats) + ", " +
           field("stalls", traffic.stalls) + ", " +
           field("idle", cycles - traffic.beats - traffic.stalls) + ", " +
           field("address_stalls", traffic.address_stalls) + ", " +
           field("errors", traffic.errors) + ", " +
           field("outstanding", traffic.outstanding) + ", " +
           field("max_outstanding", traffic.max_outstanding) + "}";
}

}  // namespace

std::string AxiStatistics::json() const {
    return "{" + field("cycles", cycles) + ", " + traffic("read", read, cycles) + ", " +
           traffic("write", write, cycles) + "}";
}

}  // namespace headrace
