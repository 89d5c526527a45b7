#include "policy/bpf/object.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "policy/bpf/testing/assembler.h"

namespace warpline::policy::bpf {
namespace {

using testing::Assemble;
using testing::MakeObject;

std::string Definition(uint32_t kind, uint32_t key_bytes, uint32_t cells, uint64_t capacity,
                       uint32_t flags = 0) {
  const MapDefinition definition = {kind, key_bytes, cells, flags, capacity};
  return std::string(reinterpret_cast<const char*>(&definition), sizeof(definition));
}

std::string TwoMaps() { return Definition(1, 4, 2, 8) + Definition(2, 8, 1, uint64_t{1} << 40); }

std::string Good() {
  return MakeObject("on_test", Assemble("r1 = map 1; r2 = map 0; r3 = 5 ll; r0 = 0; exit"),
                    TwoMaps());
}

// The sections of MakeObject().
enum SectionNumber { kProgram = 1, kVersion, kMaps, kRelocations, kSymbols, kStrings };

// Gives access to the parts of an object.
class Edited {
 public:
  explicit Edited(std::string bytes) : bytes_(std::move(bytes)) {}

  Edited& Header(const std::function<void(Elf64_Ehdr*)>& edit) { return At(0, edit); }
  Edited& Section(size_t number, const std::function<void(Elf64_Shdr*)>& edit) {
    return At(HeaderAt(number), edit);
  }
  template <typename T>
  Edited& Element(size_t section, size_t index, const std::function<void(T*)>& edit) {
    Elf64_Shdr header;
    std::memcpy(&header, bytes_.data() + HeaderAt(section), sizeof(header));
    return At(header.sh_offset + index * sizeof(T), edit);
  }
  const std::string& bytes() const { return bytes_; }
  std::string Reason() const { return std::string(ReadObject(bytes_).status().message()); }

 private:
  template <typename T>
  Edited& At(size_t at, const std::function<void(T*)>& edit) {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(value));
    edit(&value);
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
    return *this;
  }
  size_t HeaderAt(size_t number) const {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes_.data(), sizeof(header));
    return header.e_shoff + number * sizeof(Elf64_Shdr);
  }

  std::string bytes_;
};

TEST(ReadObject, ReadsProgramsMapsAndReferences) {
  const absl::StatusOr<Object> object = ReadObject(Good());
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(object->abi_version, 1u);
  ASSERT_EQ(object->maps.size(), 2u);
  EXPECT_EQ(object->maps[0], (MapShape{"map0", MapKind::kArray, 4, 2, 8}));
  EXPECT_EQ(object->maps[1], (MapShape{"map1", MapKind::kHash, 8, 1, uint64_t{1} << 40}));
  ASSERT_EQ(object->programs.size(), 1u);
  EXPECT_EQ(object->programs[0].section, "on_test");
  EXPECT_EQ(object->programs[0].code, Assemble("r1 = map 1; r2 = map 0; r3 = 5 ll; r0 = 0; exit"));
}

TEST(ReadObject, NeedsNoMaps) {
  EXPECT_TRUE(ReadObject(MakeObject("on_test", Assemble("r0 = 0; exit"))).ok());
}

std::string WithAlways(std::string_view always) {
  return MakeObject("on_test", Assemble("r0 = 0; exit"), {}, always);
}

std::string Milliseconds(uint32_t ms) { return {reinterpret_cast<const char*>(&ms), sizeof(ms)}; }

TEST(ReadObject, ReadsHowLongEverybodyMayWait) {
  EXPECT_EQ(ReadObject(WithAlways(""))->ask_always_ms, 0u);
  EXPECT_EQ(ReadObject(WithAlways(Milliseconds(1)))->ask_always_ms, 1u);
  EXPECT_EQ(ReadObject(WithAlways(Milliseconds(10000)))->ask_always_ms, 10000u);
}

TEST(ReadObject, RefusesToWaitForEver) {
  for (const std::string& always :
       {Milliseconds(0), Milliseconds(10001), Milliseconds(~0u), std::string("abc"),
        Milliseconds(5) + Milliseconds(5), std::string(1, '\x01')}) {
    const auto refused = ReadObject(WithAlways(always)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(refused.message(),
              "object: WARPLINE_ASK_ALWAYS() stands there once, with 1 to 10000 milliseconds");
  }
}

TEST(ReadObject, ReadsWhetherArrivalsAreExpected) {
  const auto with = [](std::string_view expects) {
    return ReadObject(MakeObject("on_test", Assemble("r0 = 0; exit"), {}, {}, expects));
  };
  EXPECT_FALSE(with("")->expects_arrivals);
  EXPECT_TRUE(with(Milliseconds(1))->expects_arrivals);
  for (const std::string& bytes :
       {Milliseconds(0), Milliseconds(2), std::string("abc"), Milliseconds(1) + Milliseconds(1)}) {
    EXPECT_EQ(with(bytes).status().message(),
              "object: WARPLINE_EXPECT_ARRIVALS() stands there once");
  }
}

TEST(ReadObject, RefusesWhatIsNoObject) {
  for (const std::string& bytes : {std::string(),
                                   std::string("\x7f"
                                               "ELF"),
                                   std::string(1000, 'x'), std::string(1000, '\0')}) {
    EXPECT_EQ(ReadObject(bytes).status().message(),
              "object: this is not what clang -target bpf -c writes");
  }
  EXPECT_EQ(ReadObject(std::string(kMostObjectBytes + 1, 'x')).status().message(),
            "object: it has more than 1048576 bytes");
  const std::vector<std::function<void(Elf64_Ehdr*)>> edits = {
      [](Elf64_Ehdr* h) { h->e_machine = EM_X86_64; },
      [](Elf64_Ehdr* h) { h->e_type = ET_EXEC; },
      [](Elf64_Ehdr* h) { h->e_ident[EI_CLASS] = ELFCLASS32; },
      [](Elf64_Ehdr* h) { h->e_ident[EI_DATA] = ELFDATA2MSB; },
  };
  for (const auto& edit : edits) {
    EXPECT_EQ(Edited(Good()).Header(edit).Reason(),
              "object: this is not what clang -target bpf -c writes");
  }
}

TEST(ReadObject, BelievesNoTableOfSections) {
  const std::vector<std::function<void(Elf64_Ehdr*)>> edits = {
      [](Elf64_Ehdr* h) { h->e_shoff = ~uint64_t{0}; },
      [](Elf64_Ehdr* h) { h->e_shoff = ~uint64_t{0} - 100; },
      [](Elf64_Ehdr* h) { h->e_shoff += 1000; },
      [](Elf64_Ehdr* h) { h->e_shnum = 0xffff; },
      [](Elf64_Ehdr* h) { h->e_shnum += 1; },
      [](Elf64_Ehdr* h) { h->e_shentsize = 63; },
  };
  for (const auto& edit : edits) {
    EXPECT_EQ(Edited(Good()).Header(edit).Reason(),
              "object: its table of sections is outside of it, or too large");
  }
  EXPECT_EQ(Edited(Good()).Header([](Elf64_Ehdr* h) { h->e_shnum = 0; }).Reason(),
            "object: its sections have no names");
  EXPECT_EQ(Edited(Good()).Header([](Elf64_Ehdr* h) { h->e_shstrndx = 7; }).Reason(),
            "object: its sections have no names");
}

TEST(ReadObject, BelievesNoSection) {
  const std::vector<std::function<void(Elf64_Shdr*)>> edits = {
      [](Elf64_Shdr* s) { s->sh_offset = ~uint64_t{0}; },
      [](Elf64_Shdr* s) { s->sh_size = ~uint64_t{0}; },
      [](Elf64_Shdr* s) { s->sh_size = ~uint64_t{0} - s->sh_offset + 1; },
      [](Elf64_Shdr* s) { s->sh_offset += 1 << 20; },
  };
  for (const auto& edit : edits) {
    for (int section = kProgram; section < kStrings; ++section) {
      EXPECT_EQ(Edited(Good()).Section(section, edit).Reason(),
                "object: section " + std::to_string(section) + " is outside of it");
    }
    EXPECT_EQ(Edited(Good()).Section(kStrings, edit).Reason(),
              "object: its sections have no names");
  }
}

TEST(ReadObject, NeedsAVersion) {
  const char* const reason = "object: it does not say its version: WARPLINE_POLICY() is missing";
  EXPECT_EQ(Edited(Good()).Section(kVersion, [](Elf64_Shdr* s) { s->sh_size = 3; }).Reason(),
            reason);
  EXPECT_EQ(
      Edited(Good()).Section(kVersion, [](Elf64_Shdr* s) { s->sh_type = SHT_NOBITS; }).Reason(),
      reason);
  EXPECT_EQ(Edited(Good()).Section(kVersion, [](Elf64_Shdr* s) { s->sh_name = 0; }).Reason(),
            reason);
  EXPECT_EQ(
      Edited(Good()).Section(kVersion, [](Elf64_Shdr* s) { s->sh_name = 0xffffffff; }).Reason(),
      reason);
  // Two of them.
  EXPECT_EQ(Edited(Good()).Section(kMaps, [](Elf64_Shdr* s) { s->sh_name = 1; }).Reason(), reason);
}

TEST(ReadObject, RefusesMapsThatAreNotOurs) {
  EXPECT_EQ(Edited(Good()).Section(kMaps, [](Elf64_Shdr* s) { s->sh_size -= 1; }).Reason(),
            "object: section maps holds other things than maps, or more than 64");
  std::string many;
  for (int i = 0; i < 65; ++i) many += Definition(1, 4, 1, 1);
  EXPECT_EQ(Edited(MakeObject("on_test", Assemble("r0 = 0; exit"), many)).Reason(),
            "object: section maps holds other things than maps, or more than 64");
  EXPECT_EQ(
      Edited(MakeObject("on_test", Assemble("r0 = 0; exit"), Definition(1, 4, 1, 1, 2))).Reason(),
      "object: a map has flags, and there are none yet");
}

TEST(ReadObject, RefusesMapsWithoutNames) {
  using Sym = Elf64_Sym;
  const auto edited = [](const std::function<void(Sym*)>& edit) {
    return Edited(Good()).Element<Sym>(kSymbols, 1, edit).Reason();
  };
  EXPECT_EQ(edited([](Sym* s) { s->st_name = 0; }), "object: a map has no plain name");
  EXPECT_EQ(edited([](Sym* s) { s->st_name = 0xffffff; }), "object: a map has no plain name");
  EXPECT_EQ(edited([](Sym* s) { s->st_value = 24; }), "object: a map has two names");
  EXPECT_EQ(edited([](Sym* s) { s->st_value = 12; }), "object: a map has no name");
  EXPECT_EQ(edited([](Sym* s) { s->st_value = 48; }), "object: a map has no name");
  EXPECT_EQ(edited([](Sym* s) { s->st_value = ~uint64_t{0} / 24 * 24; }),
            "object: a map has no name");
  EXPECT_EQ(edited([](Sym* s) { s->st_size = 8; }), "object: a map has no name");
  EXPECT_EQ(edited([](Sym* s) { s->st_info = STT_NOTYPE; }), "object: a map has no name");
  EXPECT_EQ(edited([](Sym* s) { s->st_shndx = 0; }), "object: a map has no name");
  EXPECT_EQ(edited([](Sym* s) { s->st_name += 5; }), "object: two maps have the same name");
  EXPECT_EQ(Edited(Good()).Section(kSymbols, [](Elf64_Shdr* s) { s->sh_link = 99; }).Reason(),
            "object: its maps have no names");
  EXPECT_EQ(Edited(Good()).Section(kSymbols, [](Elf64_Shdr* s) { s->sh_type = SHT_NULL; }).Reason(),
            "object: its maps have no names");
  EXPECT_EQ(
      Edited(Good()).Section(kStrings, [](Elf64_Shdr* s) { s->sh_type = SHT_SYMTAB; }).Reason(),
      "object: it has two tables of symbols");
}

TEST(ReadObject, RefusesPrograms) {
  EXPECT_EQ(Edited(Good()).Section(kProgram, [](Elf64_Shdr* s) { s->sh_size -= 4; }).Reason(),
            "object: program on_test has more than 4096 instructions, or a part of one");
  EXPECT_EQ(Edited(Good()).Section(kProgram, [](Elf64_Shdr* s) { s->sh_flags = 0; }).Reason(),
            "object: it has no programs");
  EXPECT_EQ(Edited(Good()).Section(kProgram, [](Elf64_Shdr* s) { s->sh_size = 0; }).Reason(),
            "object: it has no programs");
  EXPECT_EQ(Edited(Good()).Section(kProgram, [](Elf64_Shdr* s) { s->sh_name = 0; }).Reason(),
            "object: a program's section has no plain name");
  EXPECT_EQ(Edited(MakeObject("on test", Assemble("r0 = 0; exit"))).Reason(),
            "object: a program's section has no plain name");
  EXPECT_EQ(Edited(MakeObject(".text", Assemble("r0 = 0; exit"))).Reason(),
            "object: a function has no SEC(), and is not inlined either");
  EXPECT_EQ(
      Edited(MakeObject("on_test", std::vector<Instruction>(4097, {kExit, 0, 0, 0}))).Reason(),
      "object: program on_test has more than 4096 instructions, or a part of one");
  EXPECT_EQ(Edited(Good())
                .Section(kMaps,
                         [](Elf64_Shdr* s) {
                           s->sh_name = 35;
                           s->sh_flags = SHF_EXECINSTR;
                         })
                .Reason(),
            "object: there are two sections on_test");
  // A map's address that no relocation put there.
  EXPECT_EQ(Edited(MakeObject("on_test", Assemble("r0 = 0; raw 0x18 0x20 0 0; raw 0 0 0 0; exit")))
                .Reason(),
            "object: pc 1 of on_test: a wide load of an unknown kind");
}

TEST(ReadObject, RefusesRelocations) {
  using Rel = Elf64_Rel;
  const auto edited = [](const std::function<void(Rel*)>& edit) {
    return Edited(Good()).Element<Rel>(kRelocations, 0, edit).Reason();
  };
  const std::string unknown =
      "object: pc 0 of on_test: it refers to something that is no map; policies keep their state "
      "in maps";
  EXPECT_EQ(edited([](Rel* r) { r->r_info = ELF64_R_INFO(0, 1); }), unknown);
  EXPECT_EQ(edited([](Rel* r) { r->r_info = ELF64_R_INFO(3, 1); }), unknown);
  EXPECT_EQ(edited([](Rel* r) { r->r_info = ELF64_R_INFO(0xffffffffULL, 1); }), unknown);
  EXPECT_EQ(edited([](Rel* r) { r->r_info = ELF64_R_INFO(1, 10); }),
            "object: pc 0 of on_test: a relocation of an unknown kind");
  EXPECT_EQ(edited([](Rel* r) { r->r_offset = 8; }),
            "object: pc 1 of on_test: a relocation of an unknown kind");
  EXPECT_EQ(edited([](Rel* r) { r->r_offset = 16; }),
            "object: pc 2 of on_test: a relocation of an unknown kind");  // The other one's place.
  for (const uint64_t offset : {uint64_t{4}, uint64_t{64}, ~uint64_t{0}, ~uint64_t{7}}) {
    EXPECT_EQ(edited([&](Rel* r) { r->r_offset = offset; }),
              "object: a relocation is outside of on_test");
  }
  EXPECT_EQ(Edited(Good()).Section(kRelocations, [](Elf64_Shdr* s) { s->sh_link = 99; }).Reason(),
            "object: relocations lack symbols");
  EXPECT_EQ(
      Edited(Good()).Section(kRelocations, [](Elf64_Shdr* s) { s->sh_type = SHT_RELA; }).Reason(),
      "object: the relocations of on_test are not what clang writes");
  EXPECT_EQ(Edited(Good()).Section(kRelocations, [](Elf64_Shdr* s) { s->sh_info = 99; }).Reason(),
            "");  // They are about nothing that is read.
}

TEST(ReadObject, RefusesCallsThatAreNotInlined) {
  EXPECT_EQ(Edited(MakeObject("on_test", Assemble("call 1; r1 = map 0; exit"), TwoMaps()))
                .Element<Elf64_Rel>(kRelocations, 0, [](Elf64_Rel* r) { r->r_offset = 0; })
                .Reason(),
            "object: pc 0 of on_test: a function is called that is not inlined");
}

}  // namespace
}  // namespace warpline::policy::bpf
