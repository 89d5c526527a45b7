#!/usr/bin/env python3
import unittest

import figures

TEXT = """
// A class A { int not_one_; };
class A final : public B, private C {
 public:
  A() = default;
  A(const A&) = delete;
  ~A() override { Stop(); }
  virtual void One(int a, std::function<void(int)> done) = 0;
  virtual int Two() const { if (x_) { return 1; } return 0; }
  int three() const { return three_; }
  using Handler = std::function<void()>;
  struct Inner {
    int a = 0;
    std::vector<int> b = {1, 2};
  };

 private:
  static constexpr int kNot = 1;
  void Hidden();
  const int three_ = 3;
  std::map<int, std::string> map_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> flag_{false};
  std::function<void(int)> done_;
  int x_;
};
"""


class Figures(unittest.TestCase):
    def test_members_methods_and_virtuals_are_told_apart(self):
        found = {c.name: c for c in figures.classes("a.h", TEXT)}
        self.assertEqual({"A", "Inner"}, set(found))
        a = found["A"]
        self.assertEqual((5, 5, 2), (a.members, a.methods, a.virtuals))
        self.assertEqual((2, 0, 0), found["Inner"][2:])


unittest.main()
