// The opcodes of Python's pickle, by the names of pickletools.
#pragma once

#include <cstdint>
#include <string_view>

namespace xpurun::report::pickle {

// Supported opcodes: they build plain values.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
};

struct Refused {
  uint8_t code;
  std::string_view name;
};
// Known opcodes that are always refused.
inline constexpr Refused kRefused[] = {
    {'c', "GLOBAL"},        {'R', "REDUCE"},       {'b', "BUILD"},
    {'i', "INST"},          {'o', "OBJ"},          {'P', "PERSID"},
    {'Q', "BINPERSID"},     {0x81, "NEWOBJ"},      {0x82, "EXT1"},
    {0x83, "EXT2"},         {0x84, "EXT4"},        {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
    {0x96, "BYTEARRAY8"},   {0x8f, "EMPTY_SET"},   {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},    {'I', "INT"},          {'L', "LONG"},
    {'F', "FLOAT"},         {'S', "STRING"},       {'V', "UNICODE"},
    {'p', "PUT"},           {'g', "GET"},
};

// The name of a refused opcode; empty for any other.
constexpr std::string_view refused_opcode(uint8_t code) {
  for (const Refused& r : kRefused) {
    if (r.code == code) {
      return r.name;
    }
  }
  return {};
}

}  // namespace xpurun::report::pickle
