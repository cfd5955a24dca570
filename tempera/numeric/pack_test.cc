#include "tempera/numeric/pack.h"

#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::numeric {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(PackCodes, LowBitsComeFirst) {
  EXPECT_EQ(pack_codes(Bytes{1, 0, 2, 3, 1}, 2), (Bytes{0b11'10'00'01, 0b01}));
  EXPECT_EQ(pack_codes(Bytes{1, 0, 0, 0, 0, 0, 0, 1, 1}, 1), (Bytes{0x81, 0x01}));
  EXPECT_EQ(pack_codes(Bytes{0x3, 0xA, 0xF}, 4), (Bytes{0xA3, 0x0F}));
  EXPECT_EQ(pack_codes(Bytes{200}, 8), Bytes{200});
}

// Every byte, against the formula that graphs unpack it by: floor(p 2^-kb) - 2^b floor(p 2^-(k+1)b).
TEST(PackCodes, EveryByteUnpacksByTheFormulaAndPacksBack) {
  for (const int bits : {1, 2, 4, 8}) {
    for (int byte = 0; byte < 256; ++byte) {
      const Bytes one = {static_cast<std::uint8_t>(byte)};
      const Bytes codes = unpack_codes(one, bits, static_cast<std::size_t>(8 / bits));
      for (std::size_t k = 0; k < codes.size(); ++k) {
        const int low = byte >> (static_cast<int>(k) * bits);
        ASSERT_EQ(codes[k], low - (low >> bits << bits)) << "byte " << byte << ", code " << k;
      }
      ASSERT_EQ(pack_codes(codes, bits), one);
    }
  }
}

TEST(PackCodes, RefusesWhatDoesNotFit) {
  EXPECT_THROW((void)pack_codes(Bytes{4}, 2), Error);
  EXPECT_THROW((void)pack_codes(Bytes{0}, 3), Error);
  EXPECT_THROW((void)unpack_codes(Bytes{0}, 2, 5), Error);
  EXPECT_TRUE(pack_codes(Bytes{}, 1).empty());
}

}  // namespace
}  // namespace tempera::numeric
