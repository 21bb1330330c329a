// Feeds the units one record of three words (a, b, en) per cycle from a file and writes their
// results after each clock edge to another.

#include <cstdint>
#include <cstdio>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s OPERANDS RESULTS\n", argv[0]);
        return 2;
    }
    std::FILE *source = std::fopen(argv[1], "rb");
    std::FILE *sink = std::fopen(argv[2], "wb");
    if (!source || !sink) {
        std::perror("open");
        return 1;
    }
    VerilatedContext context;
    Vtop units{&context};
    units.rst = 0;
    std::uint32_t record[3];
    while (std::fread(record, sizeof record, 1, source) == 1) {
        units.clk = 0;
        units.a = record[0];
        units.b = record[1];
        units.en = record[2] & 1;
        units.eval();
        units.clk = 1;
        units.eval();
        if (std::fwrite(units.o.data(), sizeof units.o, 1, sink) != 1) {
            std::perror("write");
            return 1;
        }
    }
    std::fclose(source);
    return std::fclose(sink) ? 1 : 0;
}
