#include "common/fatbin/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/fatbin/image_view.h"
#include "gtest/gtest.h"

namespace warpline::fatbin {
namespace {

template <typename T>
void Put(std::string* bytes, size_t at, T value) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

// Builds an entry as nvcc writes it.
std::string Entry(uint16_t kind, uint32_t sm, uint64_t flags, const std::string& payload,
                  uint64_t claimed) {
  const bool compressed = (flags & (kFlagLz4 | kFlagZstd)) != 0;
  std::string bytes(64, '\0');
  const size_t padded = (payload.size() + 7) / 8 * 8;
  Put<uint16_t>(&bytes, 0, kind);
  Put<uint16_t>(&bytes, 2, 0x0101);
  Put<uint32_t>(&bytes, 4, 64);
  Put<uint64_t>(&bytes, 8, padded);
  Put<uint32_t>(&bytes, 16, compressed ? static_cast<uint32_t>(payload.size()) : 0);
  Put<uint32_t>(&bytes, 28, sm);
  Put<uint64_t>(&bytes, 40, flags);
  Put<uint64_t>(&bytes, 56, claimed);
  bytes += payload;
  bytes.resize(64 + padded, '\0');
  return bytes;
}

std::string Container(const std::string& entries) {
  std::string bytes(16, '\0');
  Put<uint32_t>(&bytes, 0, 0xBA55ED50);
  Put<uint16_t>(&bytes, 4, 1);
  Put<uint16_t>(&bytes, 6, 16);
  Put<uint64_t>(&bytes, 8, entries.size());
  return bytes + entries;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string Lz4(const std::string& text) {
  std::string out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(text.size()))), '\0');
  out.resize(static_cast<size_t>(LZ4_compress_default(
      text.data(), out.data(), static_cast<int>(text.size()), static_cast<int>(out.size()))));
  return out;
}

const std::string kPtx = ".version 9.0\n.target sm_75\n.address_size 64\n" + std::string(200, '\n');

TEST(FatbinTest, EntriesOfEveryCompression) {
  const std::string bytes = Container(Entry(1, 75, kFlagZstd | 0x11, Zstd(kPtx), kPtx.size()) +
                                      Entry(1, 90, kFlagLz4 | 0x11, Lz4(kPtx), kPtx.size()) +
                                      Entry(1, 52, 0x11, kPtx, 0) +
                                      Entry(2, 90, kFlagArchSpecific,
                                            "\x7f"
                                            "ELF...",
                                            0) +
                                      Entry(8, 90, 0x10000, "lto", 0));
  const auto entries = ParseImage(bytes);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 5u);
  const uint32_t sms[] = {75, 90, 52};
  for (size_t i = 0; i < 3; ++i) {
    const ImageEntry& entry = (*entries)[i];
    EXPECT_EQ(entry.kind, ImageKind::kPtx);
    EXPECT_EQ(entry.sm, sms[i]);
    const auto payload = EntryPayload(entry);
    ASSERT_TRUE(payload.ok()) << payload.status();
    EXPECT_EQ(*payload, kPtx);
  }
  EXPECT_EQ((*entries)[3].kind, ImageKind::kElf);
  EXPECT_NE((*entries)[3].flags & kFlagArchSpecific, 0u);
  EXPECT_EQ((*entries)[4].kind, ImageKind::kOther);
}

TEST(FatbinTest, BareImages) {
  const auto text = ParseImage("// hello\n.version 9.0");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ((*text)[0].kind, ImageKind::kPtx);
  std::string cubin =
      "\x7f"
      "ELF";
  cubin.resize(64, '\0');
  cubin[8] = 8;
  cubin[49] = 90;
  const auto elf = ParseImage(cubin);
  ASSERT_TRUE(elf.ok());
  EXPECT_EQ((*elf)[0].kind, ImageKind::kElf);
  EXPECT_EQ((*elf)[0].sm, 90u);
  constexpr char kBareElf[] = {0x7f, 'E', 'L', 'F', '\0'};
  for (const char* bad : {"", "x", kBareElf, "PTX", "   "}) {
    EXPECT_FALSE(ParseImage(bad).ok()) << bad;
  }
}

TEST(FatbinTest, PtxIsCompiledWhereThereIsNoMachineCode) {
  const std::string ptx = Entry(1, 80, 0, kPtx, 0);
  const std::string newer = Entry(1, 100, 0, "// newer", 0);
  EXPECT_EQ(*PtxToCompile(kPtx, 90), kPtx);
  EXPECT_EQ(*PtxToCompile(Container(ptx + newer), 90), kPtx);
  EXPECT_TRUE(absl::IsNotFound(PtxToCompile(Container(newer), 90).status()));
  // Code for the same generation runs as it is; that for another does not, nor does newer code.
  for (const auto& [sm, runs] : {std::pair(80, false), {86, false}, {90, true}, {100, false}}) {
    const std::string image = Container(ptx + Entry(2, static_cast<uint32_t>(sm), 0, "code", 0));
    EXPECT_EQ(PtxToCompile(image, 90).ok(), !runs) << sm;
    EXPECT_EQ(*PtxOf(image, 90), kPtx) << sm;
  }
  EXPECT_FALSE(PtxToCompile(Container(Entry(2, 86, 0, "code", 0)), 86).ok());
  EXPECT_TRUE(PtxToCompile(Container(ptx + Entry(2, 89, 0, "code", 0)), 86).ok());
  EXPECT_FALSE(PtxToCompile("no image", 90).ok());
}

TEST(FatbinTest, ClaimedSizesAreChecked) {
  const std::string zstd = Zstd(kPtx);
  const std::string lz4 = Lz4(kPtx);
  const auto payload = [](const std::string& entry, size_t max_bytes = kMaxPayloadBytes) {
    const std::string bytes = Container(entry);
    const auto entries = ParseImage(bytes);
    return entries.ok() ? EntryPayload(entries->at(0), max_bytes).status() : entries.status();
  };
  EXPECT_TRUE(payload(Entry(1, 75, kFlagZstd, zstd, kPtx.size())).ok());
  for (const uint64_t claim : {uint64_t{0}, kPtx.size() - 1, kPtx.size() + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(payload(Entry(1, 75, kFlagZstd, zstd, claim)))) << claim;
    EXPECT_TRUE(absl::IsInvalidArgument(payload(Entry(1, 75, kFlagLz4, lz4, claim)))) << claim;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(payload(Entry(1, 75, kFlagZstd, zstd, ~uint64_t{0}))));
  EXPECT_TRUE(absl::IsResourceExhausted(payload(Entry(1, 75, kFlagLz4, lz4, uint64_t{1} << 31))));
  EXPECT_TRUE(absl::IsResourceExhausted(payload(Entry(1, 75, kFlagZstd, zstd, kPtx.size()), 10)));
  EXPECT_TRUE(absl::IsInvalidArgument(payload(Entry(1, 75, kFlagZstd, "not zstd", kPtx.size()))));
}

TEST(FatbinTest, EveryTruncationIsSafe) {
  const std::string bytes = Container(Entry(1, 75, kFlagZstd, Zstd(kPtx), kPtx.size()) +
                                      Entry(1, 90, kFlagLz4, Lz4(kPtx), kPtx.size()));
  for (size_t length = 0; length < bytes.size(); ++length) {
    // The copy has exactly that length, so that the sanitizer notices a read beyond it.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_FALSE(ParseImage(std::string_view(cut.data(), cut.size())).ok()) << length;
  }
}

TEST(ImageViewTest, FindsTheExtentOfEachKind) {
  const std::string container = Container(Entry(1, 52, 0, kPtx, 0));
  EXPECT_EQ(ViewImage(container.data())->size(), container.size());
  struct {
    uint32_t magic;
    uint32_t version;
    const void* data;
    const void* more;
  } wrapper = {0x466243B1, 1, container.data(), nullptr};
  EXPECT_EQ(ViewImage(&wrapper)->data(), container.data());
  EXPECT_EQ(ViewImage(&wrapper)->size(), container.size());
  EXPECT_TRUE(PrelinkedImages(&wrapper).empty());
  EXPECT_TRUE(IsWrapper(&wrapper));
  EXPECT_FALSE(IsWrapper(container.data()));
  EXPECT_FALSE(IsWrapper("."));
  const void* list[] = {container.data(), container.data(), nullptr};
  wrapper.version = 2;
  wrapper.more = list;
  EXPECT_EQ(PrelinkedImages(&wrapper).size(), 2u);
  EXPECT_EQ(*ViewImage(kPtx.c_str()), kPtx);
  EXPECT_FALSE(ViewImage(nullptr).ok());
  EXPECT_FALSE(ViewImage("garbage").ok());
  wrapper.data = nullptr;
  EXPECT_FALSE(ViewImage(&wrapper).ok());
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Reads what nvcc writes in each of its compression modes.
class NvccTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NvccTest, PtxAndCubinCanBeRead) {
  const std::string bytes = ReadFile(std::string("common/fatbin/") + GetParam() + "/sample.fatbin");
  if (bytes.empty()) GTEST_SKIP() << "built without a CUDA toolkit";
  const auto entries = ParseImage(bytes);
  ASSERT_TRUE(entries.ok()) << entries.status();
  size_t ptx = 0, elf = 0;
  for (const ImageEntry& entry : *entries) {
    const auto payload = EntryPayload(entry);
    ASSERT_TRUE(payload.ok()) << payload.status();
    EXPECT_EQ(entry.sm, 75u);
    if (entry.kind == ImageKind::kPtx) {
      ++ptx;
      EXPECT_NE(payload->find(".entry"), std::string::npos);
    } else if (entry.kind == ImageKind::kElf) {
      ++elf;
      ASSERT_EQ(payload->substr(1, 3), "ELF");
      EXPECT_EQ(ParseImage(*payload)->at(0).sm, 75u);
      EXPECT_EQ(ViewImage(payload->data())->size(), payload->size());
    }
  }
  EXPECT_EQ(ptx, 1u);
  EXPECT_EQ(elf, 1u);
  EXPECT_EQ(ViewImage(bytes.data())->size(), bytes.size());
}

INSTANTIATE_TEST_SUITE_P(Modes, NvccTest,
                         ::testing::Values("sample_default", "sample_size", "sample_speed",
                                           "sample_none"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FatbinTest, ContainersInAFile) {
  const std::string first = Container(std::string(64, 'a'));
  const std::string second = Container("");
  const std::string magic = second.substr(0, 4);
  const std::string file = "file" + first + "between" + magic + "and" + second + "end" + magic;
  const auto found = FindContainers(file);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], first);
  EXPECT_EQ(found[1], second);
  // One that claims more than there is.
  EXPECT_TRUE(FindContainers(std::string_view(first).substr(0, first.size() - 1)).empty());
  EXPECT_TRUE(FindContainers("").empty());
}

TEST(FatbinTest, WhereThereIsNoPtxForADeviceItIsSaidWhatThereIs) {
  const std::string cubin = Entry(2, 90, 0, "code", 0);
  EXPECT_EQ(PtxOf(Container(cubin), 90).status(),
            absl::NotFoundError("it has machine code alone, and no PTX"));
  const std::string newer = Entry(1, 100, 0, kPtx, 0) + Entry(1, 80, kFlagArchSpecific, kPtx, 0);
  EXPECT_EQ(PtxOf(Container(cubin + newer), 90).status(),
            absl::NotFoundError("it has PTX for other devices alone (sm_100, sm_80a), and this one "
                                "is sm_90"));
  std::string many;
  for (uint32_t sm = 100; sm < 200; ++sm) many += Entry(1, sm, 0, kPtx, 0);
  EXPECT_LT(PtxOf(Container(many), 90).status().message().size(), 200u);
}

TEST(FatbinTest, KernelsThatMayPrintNameTheDriversFunctions) {
  EXPECT_TRUE(MayPrint(".version 9.0\n.extern .func (.param .b32 r) vprintf ();\n"));
  EXPECT_TRUE(MayPrint(".version 9.0\n.extern .func __assertfail ();\n"));
  EXPECT_FALSE(MayPrint(".version 9.0\n.visible .entry k() { ret; }\n"));
  EXPECT_FALSE(MayPrint("no image"));
}

// A few bytes claim a lot, and each is decompressed.
TEST(FatbinTest, EntriesThatTakeTooLongInSumMayPrint) {
  const std::string entry = Entry(1, 90, kFlagZstd, Zstd(kPtx), kPtx.size());
  const std::string container = Container(entry + entry + entry);
  EXPECT_FALSE(MayPrint(container));
  EXPECT_FALSE(MayPrint(container, 3 * kPtx.size()));
  EXPECT_TRUE(MayPrint(container, 3 * kPtx.size() - 1));
  // What cannot be decompressed is paid for, too.
  const std::string damaged = Entry(1, 90, kFlagZstd, "none", kPtx.size());
  EXPECT_FALSE(MayPrint(Container(damaged + damaged), 2 * kPtx.size()));
  EXPECT_TRUE(MayPrint(Container(damaged + damaged), 2 * kPtx.size() - 1));
}

}  // namespace
}  // namespace warpline::fatbin
