#include "base/params/params.h"

#include <catch2/catch.hpp>
#include <limits>

#include "base/params/utf8.h"

namespace composer::params_test {

namespace {

struct Inner {
  int64_t workers = 8;
  bool pinned = true;

  void fields(auto&& f) {
    f("workers", workers, "threads", at_least(0));
    f("pinned", pinned, "page-locked");
  }
};

struct All {
  bool flag = false;
  int64_t count = 3;
  double ratio = 0.5;
  std::string mode = "resize";
  std::string path;
  Time until{0.5, TimeUnit::duration};
  std::optional<int64_t> limit;
  std::optional<std::string> label;
  std::vector<double> betas = {0.9, 0.999};
  std::vector<std::string> names;
  std::vector<Time> milestones;
  int64_t keep = -1;
  Inner inner;

  void fields(auto&& f) {
    f("flag", flag, "a switch");
    f("count", count, "a number of things", at_least(1));
    f("ratio", ratio, "a share", in(0, 1));
    f("mode", mode, "how", one_of("resize", "crop"));
    f("path", path, "where");
    f("until", until, "when", above(0));
    f("limit", limit, "at most", at_least(1));
    f("label", label, "a name");
    f("betas", betas, "decays", in(0, 1));
    f("names", names, "some names");
    f("milestones", milestones, "when the rate drops");
    f("keep", keep, "how many", at_least(1).or_exactly(-1));
    f("inner", inner, "more");
  }

  std::string check() const {
    std::string problems;
    if (flag && mode == "crop") problems += "mode: must not be crop with flag\n";
    if (flag && count == 7) problems += "flag and 7 do not go together";
    return problems;
  }
};

std::vector<std::string> problems_of(const std::string& yaml, All& all) {
  Problems problems;
  const Value map = parse_yaml(yaml, "a.yaml", problems).value();
  read_fields(map, collect(all), "all", problems);
  return lines(problems);
}

All read(const std::string& yaml) {
  All all;
  CHECK(problems_of(yaml, all) == std::vector<std::string>{});
  return all;
}

std::string problem_of(const std::string& yaml) {
  All all;
  const auto found = problems_of(yaml, all);
  REQUIRE(found.size() == 1);
  return found[0];
}

}  // namespace

TEST_CASE("fields of every type are read") {
  const All all = read(R"(flag: yes
count: 12
ratio: 1e-3
mode: "resize"
path: /a b/ü
until: 90
limit: 5
label: none
betas: [0.5, 1]
names: one
milestones: [80ep, 1e3ba]
keep: 2
inner: {workers: 0, pinned: F}
)");
  CHECK_FALSE(all.flag == false);
  CHECK(all.count == 12);
  CHECK(all.ratio == 1e-3);
  CHECK(all.path == "/a b/ü");
  CHECK((all.until == Time{90, TimeUnit::epoch}));
  CHECK(all.limit == 5);
  CHECK(all.label == std::nullopt);
  CHECK(all.betas == std::vector<double>{0.5, 1});
  CHECK(all.names == std::vector<std::string>{"one"});
  CHECK((all.milestones == std::vector<Time>{{80, TimeUnit::epoch}, {1000, TimeUnit::batch}}));
  CHECK(all.keep == 2);
  CHECK(all.inner.workers == 0);
  CHECK_FALSE(all.inner.pinned);
}

TEST_CASE("keys that are absent keep their defaults") {
  const All all = read("");
  CHECK(all.count == 3);
  CHECK(all.betas == std::vector<double>{0.9, 0.999});
  CHECK(read("inner:\n").inner.workers == 8);
}

TEST_CASE("none and nothing empty lists, options and text; quotes keep them text") {
  const All all = read("betas: none\nnames: []\nlimit:\nlabel: 'none'\npath: none\n");
  CHECK(all.betas.empty());
  CHECK(all.limit == std::nullopt);
  CHECK(all.label == "none");
  CHECK(all.path.empty());
  CHECK(read("betas:\n").betas.empty());
  CHECK(read("path: \"none\"\n").path == "none");
  for (const std::string word : {"None", "null", "~"}) {
    CAPTURE(word);
    CHECK(read("path: " + word + "\n").path.empty());
    CHECK(read("path: '" + word + "'\n").path == word);
  }
}

TEST_CASE("booleans have the words that Composer takes") {
  for (const char* word : {"true", "True", "t", "yes", "Y", "1"})
    CHECK(read(std::string("flag: ") + word + "\nmode: resize").flag);
  for (const char* word : {"false", "F", "no", "n", "0"})
    CHECK_FALSE(read(std::string("flag: ") + word).flag);
  bool flag = false;
  Problems problems;
  read_value(Value::scalar("1", {.file = {}, .option = "flag"}), {}, "flag", flag, problems);
  CHECK(lines(problems) == std::vector<std::string>{"--flag: must be true or false, not '1'"});
}

TEST_CASE("values that do not fit are named with their place and what would be right") {
  CHECK(problem_of("flag: maybe") == "a.yaml:1:7: all.flag: must be true or false, not 'maybe'");
  CHECK(problem_of("flag: [true]") == "a.yaml:1:7: all.flag: must be true or false, not a list");
  CHECK(problem_of("count: 1.5") == "a.yaml:1:8: all.count: must be a whole number, not '1.5'");
  CHECK(problem_of("count: 1e3") == "a.yaml:1:8: all.count: must be a whole number, not '1e3'");
  CHECK(problem_of("count: 1_000") == "a.yaml:1:8: all.count: must be a whole number, not '1_000'");
  CHECK(problem_of("count:") == "a.yaml:1:1: all.count: must be a whole number, not nothing");
  CHECK(problem_of("count: 99999999999999999999") ==
        "a.yaml:1:8: all.count: the number 99999999999999999999 is too large");
  CHECK(problem_of("count: 0") == "a.yaml:1:8: all.count: must be at least 1, not 0");
  CHECK(problem_of("ratio: fast") == "a.yaml:1:8: all.ratio: must be a number, not 'fast'");
  CHECK(problem_of("ratio: nan") == "a.yaml:1:8: all.ratio: must be a number, not 'nan'");
  CHECK(problem_of("ratio: inf") == "a.yaml:1:8: all.ratio: must be a number, not 'inf'");
  CHECK(problem_of("ratio: .inf") == "a.yaml:1:8: all.ratio: must be a number, not '.inf'");
  CHECK(problem_of("ratio: 1e999") ==
        "a.yaml:1:8: all.ratio: the number 1e999 is too large or too small");
  CHECK(problem_of("ratio: 1.5") == "a.yaml:1:8: all.ratio: must be in [0, 1], not 1.5");
  CHECK(problem_of("ratio: {a: 1}") == "a.yaml:1:8: all.ratio: must be a number, not a map");
  CHECK(problem_of("mode: rezise") ==
        "a.yaml:1:7: all.mode: must be resize or crop, not 'rezise'; did you mean 'resize'?");
  CHECK(problem_of("mode:") == "a.yaml:1:1: all.mode: must be resize or crop, not nothing");
  CHECK(problem_of("ratio: |\n  two\n  lines") ==
        "a.yaml:1:8: all.ratio: must be a number, not 'two lines'");
  CHECK(problem_of("ratio: " + std::string(1000, 'x')) ==
        "a.yaml:1:8: all.ratio: must be a number, not '" + std::string(80, 'x') + "...'");
  CHECK(problem_of("path: [a, b]") == "a.yaml:1:7: all.path: must be text, not a list");
  CHECK(problem_of("until: 0ep") == "a.yaml:1:8: all.until: must be above 0, not 0ep");
  CHECK(problem_of("until: [1ep]") ==
        "a.yaml:1:8: all.until: must be a time such as 90ep or 500ba, not a list");
  CHECK(problem_of("until: 9xy")
            .starts_with("a.yaml:1:8: all.until: the time '9xy' has the unknown unit 'xy'"));
  CHECK(problem_of("limit: 0") == "a.yaml:1:8: all.limit: must be at least 1, not 0");
  CHECK(problem_of("betas: [0.5,\n  2]") == "a.yaml:2:3: all.betas: must be in [0, 1], not 2");
  CHECK(problem_of("keep: 0") == "a.yaml:1:7: all.keep: must be at least 1, or -1, not 0");
  CHECK(problem_of("inner: 5") == "a.yaml:1:8: all.inner: must be a map of keys, not '5'");
  CHECK(problem_of("inner:\n  worker: 5") ==
        "a.yaml:2:3: all.inner.worker: unknown key; did you mean 'workers'?");
  CHECK(problem_of("inner:\n  zzz: 5") ==
        "a.yaml:2:3: all.inner.zzz: unknown key; one of: workers, pinned");
}

TEST_CASE("all problems come at once in the order of their places, and spoil nothing") {
  All all;
  CHECK(problems_of("ratio: 2\ncuont: 4\nflag: 7\ncount: 9", all) ==
        std::vector<std::string>{"a.yaml:1:8: all.ratio: must be in [0, 1], not 2",
                                 "a.yaml:2:1: all.cuont: unknown key; did you mean 'count'?",
                                 "a.yaml:3:7: all.flag: must be true or false, not '7'"});
  CHECK(all.ratio == 0.5);
  CHECK(all.count == 9);
}

TEST_CASE("check() speaks of the key it names") {
  All all;
  CHECK(problems_of("flag: true\nmode: crop\ncount: 7", all) ==
        std::vector<std::string>{"a.yaml: all: flag and 7 do not go together",
                                 "a.yaml:2:7: all.mode: must not be crop with flag"});
}

TEST_CASE("check() is heard beside other problems, but not about their keys") {
  All all;
  CHECK(problems_of("flag: true\nmode: crop\nratio: 7", all) ==
        std::vector<std::string>{"a.yaml:2:7: all.mode: must not be crop with flag",
                                 "a.yaml:3:8: all.ratio: must be in [0, 1], not 7"});
  All late;
  CHECK(problems_of("flag: true\ncount: 7\nmodes: crop", late) ==
        std::vector<std::string>{"a.yaml: all: flag and 7 do not go together",
                                 "a.yaml:3:1: all.modes: unknown key; did you mean 'mode'?"});
  All set;
  set.mode = "crop", set.flag = true;
  CHECK(problems_of("mode: square", set) ==
        std::vector<std::string>{"a.yaml:1:7: all.mode: must be resize or crop, not 'square'"});
  All other;
  other.mode = "crop", other.flag = true;
  CHECK(problems_of("flag: maybe", other) ==
        std::vector<std::string>{"a.yaml:1:7: all.flag: must be true or false, not 'maybe'"});
}

TEST_CASE("fields are checked as they are, with the words of a reading") {
  const auto problems_of_fields = [](All all) {
    Problems as_they_are, read_again;
    check_fields(collect(all), "all", as_they_are);
    read_fields(write_fields(collect(all)), collect(all), "all", read_again);
    CHECK(lines(as_they_are) == lines(read_again));
    return as_they_are.size();
  };
  All all;
  CHECK(problems_of_fields(all) == 0);
  all.flag = true, all.count = 7;
  CHECK(problems_of_fields(all) == 1);
  all.count = 0, all.ratio = 1.5, all.mode = "crop";
  all.until.value = 0, all.limit = 0, all.betas = {0.5, -1}, all.keep = 0, all.inner.workers = -1;
  all.milestones = {{-1, TimeUnit::epoch}, {0.5, TimeUnit::batch}, {1e300, TimeUnit::sample}};
  CHECK(problems_of_fields(all) == 11);
  all.ratio = std::numeric_limits<double>::infinity(), all.mode = "square";
  CHECK(problems_of_fields(all) == 11);
}

TEST_CASE("what is written reads back the same") {
  All all = read(R"(ratio: 0.1
path: "#x: 'y'\n\x01 \"z\" ~"
until: 0.727dur
limit: 9
label: "null"
betas: []
names: ["none", a b, "", "- c", "true", "None"]
inner: {workers: 3}
)");
  const std::string text = to_yaml(write_fields(collect(all)));
  All again;
  CHECK(problems_of(text, again) == std::vector<std::string>{});
  CHECK(to_yaml(write_fields(collect(again))) == text);
  CHECK(again.path == "#x: 'y'\n\x01 \"z\" ~");
  CHECK(again.names == std::vector<std::string>{"none", "a b", "", "- c", "true", "None"});
  CHECK(again.label == "null");
  CHECK(again.betas.empty());
}

TEST_CASE("numbers are written with all their digits") {
  for (const double number :
       {0.1, 1.0, -0.0, 1e-12, 2.048, 1.0 / 3, 1e300, std::numeric_limits<double>::denorm_min()}) {
    double again = 7;
    Problems problems;
    read_value(write_value(number), {}, "", again, problems);
    CHECK(problems.empty());
    CHECK(again == number);
  }
  CHECK(one_line(write_value(1.0)) == "1.0");
  CHECK(one_line(write_value(0.1)) == "0.1");
  CHECK(one_line(write_value(5e-4)) == "5.0e-04");
}

TEST_CASE("fields describe themselves") {
  All all;
  const auto docs = describe(collect(all));
  REQUIRE(docs.size() == 14);
  CHECK(docs[2].name == "ratio");
  CHECK(docs[2].type == "number, in [0, 1]");
  CHECK(docs[2].default_text == "0.5");
  CHECK(docs[2].doc == "a share");
  CHECK(docs[3].type == "text, resize or crop");
  CHECK(docs[6].type == "whole number or none, at least 1");
  CHECK(docs[6].default_text == "null");
  CHECK(docs[8].type == "list of number, in [0, 1]");
  CHECK(docs[8].default_text == "[0.9, 0.999]");
  CHECK(docs[12].name == "inner.workers");
  CHECK(help_text(collect(all.inner)) ==
        "  workers  8     threads (whole number, at least 0)\n"
        "  pinned   true  page-locked (true or false)\n");
}

TEST_CASE("YAML that other readers accept in silence is refused") {
  const auto problems_in = [](const std::string& yaml) {
    Problems problems;
    parse_yaml(yaml, "a.yaml", problems);
    return lines(problems);
  };
  using Lines = std::vector<std::string>;
  CHECK(problems_in("a: 1\nb: {c: 1, c: 2}\na: 3") ==
        Lines{"a.yaml:2:11: b.c: duplicate key, first on line 2",
              "a.yaml:3:1: a: duplicate key, first on line 1"});
  CHECK(problems_in("a: &x [1, *x]") ==
        Lines{"a.yaml:1:11: a: an alias inside what it stands for: a cycle"});
  CHECK(problems_in("a: &x {b: {c: *x}}") ==
        Lines{"a.yaml:1:15: a.b.c: an alias inside what it stands for: a cycle"});
  CHECK(problems_in("- a\n- b") == Lines{"a.yaml:1:1: a recipe is a map of keys, not a list"});
  CHECK(problems_in("hello") == Lines{"a.yaml:1:1: a recipe is a map of keys, not 'hello'"});
  CHECK(problems_in("a: 1\n---\nb: 2") == Lines{"a.yaml:3:1: a second document; a recipe is one"});
  CHECK(problems_in("? [a, b]\n: 1") == Lines{"a.yaml:1:3: a key must be a word, not a list"});
  CHECK(problems_in("a: 1\nb: ü\xFC") == Lines{"a.yaml:2:6: not UTF-8 text"});
  CHECK(problems_in("\xFF") == Lines{"a.yaml:1:1: not UTF-8 text"});
  CHECK(problems_in("").empty());
  CHECK(problems_in("# nothing\n").empty());
  for (const char* broken :
       {"a: [1, 2", "a: b: c", "a:\n\t- b", "a: *nowhere", "a: \"x", "{a: 1}}", "a: !<"}) {
    INFO(broken);
    const Lines found = problems_in(broken);
    REQUIRE(found.size() == 1);
    CHECK(found[0].starts_with("a.yaml:"));
  }
}

TEST_CASE("aliases stand for what they name, within reason") {
  Problems problems;
  const Value map = parse_yaml("a: &x {b: 1}\nc: *x\n", "a.yaml", problems).value();
  CHECK(problems.empty());
  CHECK(to_yaml(map) == "a:\n  b: 1\nc:\n  b: 1\n");

  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = std::to_string(i - 1), name = std::to_string(i);
    laughs.append("a").append(name).append(": &a").append(name).append(" [*a").append(last);
    for (int k = 0; k < 9; ++k) laughs.append(" , *a").append(last);
    laughs += " ]\n";
  }
  parse_yaml(laughs, "a.yaml", problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message == "aliases expand to more than 100000 values");

  problems.clear();
  parse_yaml("a: " + std::string(100'000, '['), "a.yaml", problems);
  CHECK(problems.size() == 1);
}

TEST_CASE("UTF-8 is told from what is not") {
  constexpr size_t none = std::string_view::npos;
  for (const char* text : {"", "a\n", "ü", "€", "\xF0\x9F\x98\x80", "\xEF\xBB\xBF", "\xED\x9F\xBF",
                           "\xF4\x8F\xBF\xBF"})
    CHECK(find_invalid_utf8(text) == none);
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    CHECK(find_invalid_utf8(std::string("ü") + text) == 2);
}

TEST_CASE("the nearest word is the one a typo away") {
  const std::vector<std::string> known = {"smoothing", "blurpool", "lr"};
  CHECK(nearest("smothing", known) == "smoothing");
  CHECK(nearest("adamW", {"adam", "adamw"}) == "adamw");
  CHECK(nearest("bulrpool", known) == "blurpool");
  CHECK(nearest("lt", known) == "lr");
  CHECK(nearest("momentum", known).empty());
  CHECK(nearest("cosine", {"cosine_warmrestart", "cosine_decay", "linear_decay"}) ==
        "cosine_decay");
  CHECK(nearest("warmrestart", {"cosine_warmrestart", "cosine_decay"}) == "cosine_warmrestart");
}

}  // namespace composer::params_test
