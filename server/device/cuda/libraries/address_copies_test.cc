// The kernel that copies addresses, on the CPU device.
#include "server/device/cuda/libraries/address_copies.h"

#include <array>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::device {
namespace {

constexpr uint64_t kFirst = 0x300000000000, kLast = 0x300000010000;

class AddressCopiesTest : public cpu::KernelFixture {
 protected:
  // Copies `given`, with addresses of multiples of 8, and puts the word into `*word`.
  std::vector<uint64_t> Copy(const std::vector<uint64_t>& given, uint32_t* word) {
    const uint64_t from = memory_, to = from + 65536, at = to + 65536;
    Write(from, given);
    Write(at, std::vector<uint32_t>{0});
    AddressCopies::Array array;
    array.from = from;
    array.to = to;
    array.count = given.size();
    array.first = kFirst;
    array.last = kLast;
    array.odd = 7;
    array.word = reinterpret_cast<uint32_t*>(at);
    return Run(array, word);
  }

  std::vector<uint64_t> Run(const AddressCopies::Array& array, uint32_t* word) {
    const device::KernelId kernel = Load(AddressCopies::kPtx, "copy_addresses");
    std::array<AddressCopies::Array, AddressCopies::kMostArrays> arrays{};
    arrays[1] = array;
    const auto blocks = static_cast<uint32_t>(array.count / AddressCopies::kThreads + 1);
    EXPECT_EQ(Launch(kernel, {blocks, 2, 1}, {AddressCopies::kThreads, 1, 1}, 0, arrays),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(), CudaResult::kSuccess);
    if (word != nullptr) *word = Read<uint32_t>(reinterpret_cast<uint64_t>(array.word), 1)[0];
    return Read<uint64_t>(array.to, array.count);
  }
};

TEST_F(AddressCopiesTest, AddressesInTheArenaAreCopied) {
  std::vector<uint64_t> given;
  for (uint64_t i = 0; i < 1000; ++i) given.push_back(kFirst + i * 64);
  given.push_back(kLast);
  uint32_t word = 1;
  EXPECT_EQ(Copy(given, &word), given);
  EXPECT_EQ(word, 0u);
}

TEST_F(AddressCopiesTest, OthersBecomeTheFirstAddressAndAreReported) {
  struct Case {
    uint64_t address;
    uint32_t error;
  };
  for (const Case& c :
       {Case{kFirst - 8, 700}, Case{kLast + 8, 700}, Case{0, 700}, Case{~uint64_t{7}, 700},
        Case{uint64_t{1} << 63, 700}, Case{kFirst + 4, 716}, Case{kLast + 1, 716}}) {
    uint32_t word = 0;
    EXPECT_EQ(Copy({kFirst + 8, c.address, kFirst + 16}, &word),
              (std::vector<uint64_t>{kFirst + 8, kFirst, kFirst + 16}))
        << c.address;
    EXPECT_EQ(word, c.error) << c.address;
  }
}

TEST_F(AddressCopiesTest, UnusedAddressesBecomeTheFirstOneWithoutAReport) {
  AddressCopies::Array array;
  array.from = memory_;
  array.to = memory_ + 4096;
  array.count = 2;
  array.first = array.last = kFirst;
  Write(array.from, std::vector<uint64_t>{5, kFirst});
  EXPECT_EQ(Run(array, nullptr), (std::vector<uint64_t>{kFirst, kFirst}));
}

}  // namespace
}  // namespace warpline::device
