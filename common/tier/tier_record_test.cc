#include "common/tier/tier_record.h"

#include <string>

#include "common/tier/folder_fixture.h"
#include "common/tier/program_identity.h"
#include "gtest/gtest.h"

namespace warpline::tier {
namespace {

class TierRecordTest : public FolderFixture {
 protected:
};

TEST_F(TierRecordTest, KeepsWhatStoodInTheWay) {
  const std::string a(64, 'a'), b(64, 'b');
  const TierRecord record(folder_ + "/cache");
  EXPECT_EQ(record.Find(a), "");
  EXPECT_TRUE(record.Add(a, "kernel k\nis refused"));
  EXPECT_EQ(TierRecord(folder_ + "/cache").Find(a), "kernel k\nis refused");
  EXPECT_EQ(record.Find(b), "");
}

TEST_F(TierRecordTest, LongTextsAreCut) {
  const std::string a(64, 'a');
  const TierRecord record(folder_ + "/cache");
  EXPECT_TRUE(record.Add(a, std::string(100000, '\x01')));
  EXPECT_EQ(record.Find(a), std::string(200, '\x01'));
}

TEST_F(TierRecordTest, AnEntryThatSaysNothingIsAnEntry) {
  const std::string a(64, 'a');
  ASSERT_TRUE(KeyedLines({.folder = folder_, .name = "tier-record-1"}).Put({{a, "\\q"}}));
  EXPECT_NE(TierRecord(folder_).Find(a), "");
}

TEST_F(TierRecordTest, ProgramsWithoutIdentityAreNotKept) {
  const TierRecord record(folder_);
  EXPECT_FALSE(record.Add("", "why"));
  EXPECT_FALSE(TierRecord("").Add(std::string(64, 'a'), "why"));
  EXPECT_EQ(record.Find(""), "");
}

TEST_F(TierRecordTest, AProgramIsItsContents) {
  const std::string program = Write("program", "one"), copy = Write("copy", "one"),
                    other = Write("other", "two");
  const std::string identity = IdentifyProgram(program, {program});
  EXPECT_EQ(identity.size(), 64u);
  EXPECT_EQ(IdentifyProgram(copy, {"copy", "--data=x", other}), identity);
  EXPECT_NE(IdentifyProgram(other, {other}), identity);
  EXPECT_EQ(IdentifyProgram(folder_ + "/none", {}), "");
  EXPECT_EQ(IdentifyProgram(folder_, {}), "");
}

TEST_F(TierRecordTest, AScriptIsAProgramOfItsOwn) {
  const std::string python = Write("python3.12", "interpreter");
  const std::string a = Write("a.py", "a"), same = Write("same.py", "a"), b = Write("b.py", "b");
  const auto identity = [&](std::vector<std::string> words) {
    words.insert(words.begin(), python);
    return IdentifyProgram(python, words);
  };
  EXPECT_EQ(identity({a}), identity({same, "--epochs=5", b}));
  EXPECT_NE(identity({a}), identity({b}));
  EXPECT_NE(identity({"-W", "ignore", a}), identity({"-W", "ignore", b}));
  EXPECT_NE(identity({"-c", "print(1)"}), identity({"-c", "print(2)"}));
  EXPECT_EQ(identity({"-m", "pytest", a}), identity({"-m", "pytest", b}));
  EXPECT_NE(identity({"-m", "pytest"}), identity({"-m", "unittest"}));
  EXPECT_NE(identity({}), "");
}

TEST_F(TierRecordTest, InterpretersAreKnownByName) {
  for (const char* name : {"python", "python3", "python3.12", "perl5.36", "bash", "R"}) {
    EXPECT_TRUE(IsInterpreter(name)) << name;
  }
  for (const char* name : {"vector_add", "pythonic", "3.12", ""}) {
    EXPECT_FALSE(IsInterpreter(name)) << name;
  }
}

TEST_F(TierRecordTest, ThisProcessHasAnIdentity) {
  EXPECT_EQ(IdentifySelf().size(), 64u);
  EXPECT_EQ(IdentifySelf(), IdentifySelf());
}

}  // namespace
}  // namespace warpline::tier
