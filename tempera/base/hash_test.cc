#include "tempera/base/hash.h"

#include <string>

#include <gtest/gtest.h>

namespace tempera {
namespace {

// Messages and digests of FIPS 180-2, appendix B, and of the NIST example of a million 'a'.
TEST(HashTest, Sha256OfPublishedMessages) {
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HashTest, PiecesGiveTheSameDigestAsTheWhole) {
  Sha256 hash;
  hash.update("a");
  hash.update("");
  hash.update("bc");
  EXPECT_EQ(hash.finish(), sha256("abc"));
  EXPECT_EQ(hash.finish(), sha256(""));  // finish() starts afresh
}

}  // namespace
}  // namespace tempera
