#include "common/tier/device_code.h"

#include <cstddef>
#include <random>
#include <string>

#include "common/tier/fatbin_bytes.h"
#include "gtest/gtest.h"

namespace warpline::tier {
namespace {

constexpr uint64_t kZstd = 0x8000, kArchSpecific = 0x100000, kFamily = 0x200000;
const std::string kElf =
    "\x7f"
    "ELF...";

TEST(DeviceCodeTest, NothingInAFileWithoutContainers) {
  EXPECT_FALSE(FindDeviceCode("").any());
  EXPECT_FALSE(FindDeviceCode(kElf + std::string(5000, 'x')).any());
}

TEST(DeviceCodeTest, PtxBesideMachineCodeIsNoObstacle) {
  const DeviceCode code =
      FindDeviceCode(kElf + Container({MachineCode(75), Ptx(75)}) + "..." + Container({Ptx(75)}));
  EXPECT_EQ(code.obstacle, "");
  EXPECT_EQ(code.targets, std::set<std::string>{"75"});
  EXPECT_EQ(ObstacleOn(code, 75), "");
}

TEST(DeviceCodeTest, OneModuleOfMachineCodeAloneIsAnObstacle) {
  const DeviceCode code =
      FindDeviceCode(kElf + Container({Ptx(75)}) + Container({MachineCode(75)}));
  EXPECT_EQ(code.obstacle, "it has machine code without PTX");
  EXPECT_EQ(ObstacleOn(code, 90), code.obstacle);
}

TEST(DeviceCodeTest, MachineCodeWithoutFunctionsIsNone) {
  FatbinEntry empty = MachineCode(75);
  empty.payload = kElf;
  EXPECT_FALSE(FindDeviceCode(Container({empty})).any());
  EXPECT_TRUE(FindDeviceCode(Container({empty, MachineCode(80)})).any());
}

TEST(DeviceCodeTest, DevicesTakeWhatIsForThem) {
  const auto taken = [](const FatbinEntry& ptx, int sm) {
    return ObstacleOn(FindDeviceCode(Container({ptx})), sm).empty();
  };
  EXPECT_TRUE(taken(Ptx(80), 80));
  EXPECT_TRUE(taken(Ptx(80), 90));
  EXPECT_FALSE(taken(Ptx(80), 75));
  EXPECT_TRUE(taken(Ptx(90, kArchSpecific), 90));
  EXPECT_FALSE(taken(Ptx(90, kArchSpecific), 100));
  EXPECT_TRUE(taken(Ptx(100, kFamily), 103));
  EXPECT_FALSE(taken(Ptx(100, kFamily), 120));
}

TEST(DeviceCodeTest, EachModuleNeedsATargetOfTheDevice) {
  const DeviceCode code =
      FindDeviceCode(Container({Ptx(75), Ptx(90, kArchSpecific)}) + Container({Ptx(90)}));
  EXPECT_EQ(ObstacleOn(code, 90), "");
  EXPECT_EQ(ObstacleOn(code, 75),
            "it has PTX for compute capability 90 alone, and the device has 75");
}

TEST(DeviceCodeTest, TooManyTargetsAreAnObstacle) {
  std::string bytes;
  for (uint32_t sm = 1; sm <= kMostTargets + 1; ++sm) bytes += Container({Ptx(sm)});
  EXPECT_NE(FindDeviceCode(bytes).obstacle, "");
}

TEST(DeviceCodeTest, WhatClaimsToBeHugeIsNotDecompressed) {
  FatbinEntry bomb = MachineCode(75);
  bomb.flags = kZstd;
  bomb.uncompressed_bytes = uint64_t{1} << 60;
  EXPECT_NE(FindDeviceCode(Container({bomb})).obstacle, "");
  // Each claims half of what is looked into, and is damaged.
  bomb.uncompressed_bytes = kMostLookedInto / 2 + 1;
  uint64_t left = kMostLookedInto;
  CodeOfContainer(Container({bomb}), &left);
  EXPECT_EQ(left, kMostLookedInto / 2 - 1);
  EXPECT_TRUE(CodeOfContainer(Container({bomb}), &left).machine_code_alone);
  EXPECT_EQ(left, kMostLookedInto / 2 - 1);
}

TEST(DeviceCodeTest, TruncatedAndChangedBytesDoNoHarm) {
  const std::string whole =
      kElf + Container({MachineCode(75), Ptx(75)}) + Container({Ptx(90, kArchSpecific)});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) FindDeviceCode(whole.substr(0, bytes));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = whole;
    for (int j = 0; j < 3; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    const DeviceCode code = FindDeviceCode(changed);
    EXPECT_EQ(ParseDeviceCode(FormatDeviceCode(code)), code);
    ObstacleOn(code, 90);
  }
}

TEST(DeviceCodeTest, TextRoundTripsAndGarbageIsNone) {
  const DeviceCode codes[] = {
      {}, {"it has | bars\nand lines", {}}, {"", {"75,90a", "100f"}}, {"why", {"75"}}};
  for (const DeviceCode& code : codes) {
    const std::string text = FormatDeviceCode(code);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(ParseDeviceCode(text), code) << text;
  }
  for (const char* text : {"", "75", "x|", "75,|", "90b|", "-5|", "99999999999|", "75|\\q"}) {
    EXPECT_FALSE(ParseDeviceCode(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace warpline::tier
