#include "common/crypto/piece_cipher.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

using Direction = PieceCipher::Direction;

const std::string kKey(PieceCipher::kKeyBytes, 'k');

class PieceCipherTest : public ::testing::Test {
 protected:
  // Encrypts piece 2 of 3.
  PieceCipherTest() : piece_("a piece of memory") {
    PieceCipher cipher(kKey, 3, Direction::kEncrypt);
    status_ = cipher.Encrypt(2, Bytes(&piece_), Size(piece_), &tag_);
  }

  static unsigned char* Bytes(std::string* piece) {
    return reinterpret_cast<unsigned char*>(piece->data());
  }
  static int Size(const std::string& piece) { return static_cast<int>(piece.size()); }

  absl::Status Decrypt(const std::string& key, uint64_t pieces, uint64_t number,
                       std::string* piece) const {
    PieceCipher cipher(key, pieces, Direction::kDecrypt);
    return cipher.Decrypt(number, Bytes(piece), Size(*piece), tag_);
  }

  absl::Status status_;
  std::string piece_;
  PieceCipher::Tag tag_ = {};
};

TEST_F(PieceCipherTest, DecryptsWhatItEncrypted) {
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_NE(piece_, "a piece of memory");
  ASSERT_TRUE(Decrypt(kKey, 3, 2, &piece_).ok());
  EXPECT_EQ(piece_, "a piece of memory");
}

TEST_F(PieceCipherTest, NoticesAnotherKeyNumberCountOrContent) {
  std::string piece = piece_;
  EXPECT_TRUE(absl::IsDataLoss(Decrypt(std::string(kKey.size(), 'x'), 3, 2, &piece)));
  piece = piece_;
  EXPECT_TRUE(absl::IsDataLoss(Decrypt(kKey, 3, 1, &piece)));
  piece = piece_;
  EXPECT_TRUE(absl::IsDataLoss(Decrypt(kKey, 4, 2, &piece)));
  piece = piece_;
  piece[5] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(Decrypt(kKey, 3, 2, &piece)));
}

TEST_F(PieceCipherTest, RefusesAKeyOfAnotherSize) {
  EXPECT_TRUE(absl::IsInternal(Decrypt("short", 3, 2, &piece_)));
}

}  // namespace
}  // namespace warpline
