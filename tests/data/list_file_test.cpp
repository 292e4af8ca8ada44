#include "data/samples/list_file.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/files.h"

namespace composer::list_file_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

using Names = std::vector<std::string>;

struct List : TemporaryFolder {
  Names read(const std::string& name, const std::string& text, const ListColumns& columns = {},
             const Names& classes = {}) const {
    write_file(*this / name, text);
    const auto known = classes.empty() ? std::nullopt : std::optional(classes);
    const SampleTable table(list_table(*this / name, columns, known).bytes());
    Names all;
    for (int64_t i = 0; i < table.size(); ++i)
      all.push_back(std::string(table.container(i)) + std::string(table.name(i)) + "=" +
                    std::to_string(table.label(i)));
    for (const auto& name_of_class : table.class_names()) all.push_back(name_of_class);
    return all;
  }
};

}  // namespace

TEST_CASE("lists of files and classes are read in every form", "[data]") {
  const List list;
  const Names numbers{"a/1.jpg=3", "/b/2.jpg=0"};
  for (const char* text :
       {"path,label\na/1.jpg,3\n/b/2.jpg,0\n", "a/1.jpg,3\n/b/2.jpg,0",
        "\"a/1.jpg\",3\r\n/b/2.jpg,0\r\n", "\xEF\xBB\xBFlabel,x,File\n3,,a/1.jpg\n\n0,y,/b/2.jpg\n",
        "Class,\"image_path\",\"a \"\"b\"\", c\"\n3,a/1.jpg,\"x\ny\"\n0,/b/2.jpg,z\n"})
    CHECK(list.read("a.csv", text) == numbers);
  CHECK(list.read("a.tsv", "a/1.jpg\t3\n/b/2.jpg\t0\n") == numbers);
  CHECK(list.read("a.tsv", "\"a,1\".jpg\t3\n") == Names{"\"a,1\".jpg=3"});
  CHECK(list.read("a.jsonl",
                  "{\"path\": \"a/1.jpg\", \"label\": 3}\n\n"
                  "{\"x\": [1], \"label\": 0, \"path\": \"/b/2.jpg\"}\r\n") == numbers);
  CHECK(list.read("a.csv", "x,y,z\nq,a/1.jpg,3\nr,/b/2.jpg,0\n", {.path = "y", .label = "z"}) ==
        numbers);
  CHECK(list.read("a.jsonl", R"({"file_name": "a/1.jpg", "n": 3})", {.label = "n"}) ==
        Names{"a/1.jpg=3"});
}

TEST_CASE("lines of a list may end as on any system, and names may have blanks around them",
          "[data]") {
  const List list;
  const Names numbers{"a/1.jpg=3", "/b/2.jpg=0"};
  CHECK(list.read("a.csv", "path,label\ra/1.jpg,3\r\r/b/2.jpg,0\r") == numbers);
  CHECK(list.read("a.csv", "\"path\",\"label\"\r\"a/1.jpg\",\"3\"\r/b/2.jpg,0") == numbers);
  CHECK(list.read("a.tsv", "a/1.jpg\t3\r/b/2.jpg\t0\r") == numbers);
  CHECK(
      list.read("a.jsonl",
                "{\"path\": \"a/1.jpg\", \"label\": 3}\r{\"path\": \"/b/2.jpg\", \"label\": 0}") ==
      numbers);
  CHECK_THROWS_WITH(list.read("a.csv", "1.jpg,0\r\r2.jpg,-1\r"),
                    Contains("a.csv:3: has the class"));
  CHECK_THROWS_WITH(list.read("a.jsonl", "{\"path\": \"x\", \"label\": 1}\r\n\r\n[]\r\n"),
                    Contains("a.jsonl:3: is no JSON object"));
  CHECK(list.read("a.jsonl", R"({"path": "1.jpg", "label": " cat "})", {}, {"cat"}) ==
        Names{"1.jpg=0", "cat"});
  for (const char* names : {"dog\rcat\r", "dog \n\tcat\n \n", " dog\r\ncat"}) {
    write_file(list / "classes.txt", names);
    CHECK(listed_classes(list / "classes.txt", {}) == Names{"dog", "cat"});
  }
}

TEST_CASE("labels of a list may be names", "[data]") {
  const List list;
  const std::string text = "1.jpg,dog\n2.jpg,cat\n3.jpg,dog\n4.jpg,7\n";
  CHECK(list.read("a.csv", text) ==
        Names{"1.jpg=2", "2.jpg=1", "3.jpg=2", "4.jpg=0", "7", "cat", "dog"});
  CHECK(list.read("a.csv", text, {}, {"dog", "7", "cat", "fox"}) ==
        Names{"1.jpg=0", "2.jpg=2", "3.jpg=0", "4.jpg=1", "dog", "7", "cat", "fox"});
  CHECK_THROWS_WITH(list.read("a.csv", text, {}, {"dog", "7"}),
                    Contains("a.csv:2: 'cat' is none of the 2 classes"));
  CHECK(list.read("a.csv", "1.jpg,12\n", {}, {"10", "12"}) == Names{"1.jpg=1", "10", "12"});
  CHECK(list.read("a.csv", "1.jpg,0.5\n", {}, {"0.25", "0.5"}) == Names{"1.jpg=1", "0.25", "0.5"});
  CHECK(list.read("a.csv", "1.jpg,nan\n2.jpg,3rd\n") == Names{"1.jpg=1", "2.jpg=0", "3rd", "nan"});
  write_file(list / "classes.txt", "dog\r\nold cat\n\n");
  CHECK(listed_classes(list / "classes.txt", {}) == Names{"dog", "old cat"});
  write_file(list / "classes.txt", "\xEF\xBB\xBFowl\n");
  CHECK(listed_classes(list / "classes.txt", {}) == Names{"owl"});
  write_file(list / "classes.txt", "dog\ncat\ndog\n");
  CHECK_THROWS_WITH(listed_classes(list / "classes.txt", {}),
                    Contains("classes.txt:3: names the class 'dog' again"));
}

TEST_CASE("a class's name that is not UTF-8 is refused with its line", "[data]") {
  const List list;
  for (const std::string name : {"k\xE4t", "\xFF", "kat\xC3"}) {
    CHECK_THROWS_WITH(list.read("a.csv", "1.jpg,dog\n2.jpg," + name + "\n"),
                      Contains("a.csv:2: ") && Contains("is not UTF-8"));
    write_file(list / "classes.txt", "dog\n\n" + name + "\n");
    CHECK_THROWS_WITH(listed_classes(list / "classes.txt", {}),
                      Contains("classes.txt:3: ") && Contains("is not UTF-8"));
    write_file(list / "train.tsv", "1.jpg\t" + name + "\n");
    CHECK_THROWS_WITH(listed_classes(list / "train.tsv", {}), Contains("train.tsv:1: "));
  }
  CHECK(list.read("a.csv", "k\xE4t.jpg,k\xC3\xA4t\n") == Names{"k\xE4t.jpg=0", "k\xC3\xA4t"});
}

TEST_CASE("the classes of a list of numbers are these numbers in another list too", "[data]") {
  const List list;
  list.read("train.csv", "1.jpg,2\n2.jpg,10\n3.jpg,7\n");
  const auto classes = listed_classes(list / "train.csv", {});
  CHECK(classes.empty());
  const auto labels = [&](const std::string& text) {
    write_file(list / "val.csv", text);
    const SampleTable table(list_table(list / "val.csv", {}, classes).bytes());
    CHECK(table.class_names().empty());
    std::vector<int32_t> all;
    for (int64_t i = 0; i < table.size(); ++i) all.push_back(table.label(i));
    return all;
  };
  CHECK(labels("4.jpg,10\n5.jpg,2\n6.jpg,3\n") == std::vector<int32_t>{10, 2, 3});
  CHECK_THROWS_WITH(labels("4.jpg,10\n5.jpg,cat\n"),
                    Contains("val.csv:2: 'cat' is no number; the labels of the list that classes"));
  list.read("train.csv", "1.jpg,2\n2.jpg,10\n3.jpg,cat\n");
  CHECK(listed_classes(list / "train.csv", {}) == Names{"10", "2", "cat"});
  write_file(list / "empty.csv", "path,label\n");
  CHECK_THROWS_WITH(listed_classes(list / "empty.csv", {}),
                    Contains("empty.csv: names no classes"));
}

TEST_CASE("the files of a list are told with their labels, or without", "[data]") {
  const List list;
  const auto files = [&](const std::string& name, const std::string& text) {
    write_file(list / name, text);
    Names all;
    for (const auto& [path, label, line] : listed_images(list / name))
      all.push_back(fs::path(path).lexically_relative(list.path()).string() + "=" + label + "@" +
                    std::to_string(line));
    return all;
  };
  const Names labelled{"a/1.jpg=cat@2", "2.jpg=@3"};
  CHECK(files("a.csv", "label,path\ncat,a/1.jpg\n,a/../2.jpg\n") == labelled);
  const Names alone{"a/1.jpg=@2", "2.jpg=@3"};
  CHECK(files("b.csv", "id,file\n7,a/1.jpg\n8,2.jpg\n") == alone);
  CHECK(files("c.csv", "a/1.jpg\n2.jpg\n") == Names{"a/1.jpg=@1", "2.jpg=@2"});
  CHECK(files("d.jsonl", "{\"path\": \"a/1.jpg\"}\n{\"path\": \"2.jpg\", \"label\": 3}\n") ==
        Names{"a/1.jpg=@1", "2.jpg=3@2"});
  CHECK_THROWS_WITH(files("e.csv", "path\n"), Contains("e.csv: lists no images"));
  CHECK_THROWS_WITH(files("f.csv", "id,name,x\n1,2,3\n"), Contains("f.csv:1: expected two"));
}

TEST_CASE("what is wrong with a list is named by its line", "[data]") {
  const List list;
  const auto problem = [&](const std::string& name, const std::string& text,
                           const ListColumns& columns = {}) -> std::string {
    try {
      list.read(name, text, columns);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(problem("a.csv", ""), Contains("a.csv: lists no images"));
  CHECK_THAT(problem("a.csv", "path,label\n"), Contains("lists no images"));
  CHECK_THAT(problem("a.csv", "1.jpg,0\n2.jpg\n"),
             Contains("a.csv:2: has 1 fields; the first line has 2"));
  CHECK_THAT(problem("a.csv", "1.jpg,0,x\n"), Contains("a.csv:1: expected two columns"));
  for (const auto& [name, text] : {std::pair{"a.csv", "path;label\n1.jpg;0\n"},
                                   {"a.csv", "path\tlabel\n1.jpg\t0\n"},
                                   {"a.tsv", "path,label\n1.jpg,0\n"}})
    CHECK_THAT(problem(name, text),
               Contains(":1: ") && Contains("by commas in a .csv file, by tabs in a .tsv file"));
  CHECK_THAT(problem("a.csv", "name;kind\n1;2\n", {.path = "name"}),
             Contains("no column name") && Contains("by commas in a .csv file"));
  CHECK_THAT(problem("a.csv", "a,b\n1,2\n", {.path = "c"}), Contains("a.csv:1: no column c"));
  CHECK_THAT(problem("a.csv", "pic,kind\n1,2\n", {.path = "pic", .label = "kinds"}),
             Contains("a.csv:1: no column kinds") && Contains("did you mean 'kind'?"));
  CHECK_THAT(problem("a.csv", "pic,kind\n1,2\n", {.path = "pic"}),
             Contains("a.csv:1: no column of labels (label, class, ...)"));
  CHECK_THAT(problem("a.csv", "1.jpg,0\n,1\n"), Contains("a.csv:2: has no path"));
  CHECK_THAT(problem("a.csv", "1.jpg,0\n2.jpg,\n"), Contains("a.csv:2: has no label"));
  CHECK_THAT(problem("a.csv", "1.jpg,0\n\n2.jpg,-1\n"), Contains("a.csv:3: has the class -1"));
  CHECK_THAT(problem("a.csv", "1.jpg,0\n\"2.jpg,1\n"),
             Contains("a.csv:2: a quote that is not closed"));
  CHECK_THAT(problem("a.csv", "\"1\"x,0\n"), Contains("a.csv:1: text behind a closing quote"));
  CHECK_THAT(problem("a.csv", "\"1\n\n2\",0\n3.jpg\n"), Contains("a.csv:4: has 1 fields"));
  CHECK_THAT(problem("a.jsonl", "{\"path\": \"x\", \"label\": 1}\n[]\n"),
             Contains("a.jsonl:2: is no JSON object"));
  CHECK_THAT(problem("a.jsonl", "{\"path\": 1, \"label\": 1}"),
             Contains("a.jsonl:1: has no path, a text"));
  CHECK_THAT(problem("a.jsonl", "{\"path\": \"x\", \"label\": 1.5}"),
             Contains("a.jsonl:1: has the label 1.5; it must be a whole number or a text"));
  CHECK_THAT(problem("a.jsonl", "{\"path\": \"x\", \"label\": " + std::string(300'000, '[') +
                                    std::string(300'000, ']') + "}"),
             Contains("a.jsonl:1: has the label an array; it must be a whole number or a text"));
  CHECK_THAT(problem("a.jsonl", "{\"path\": \"x\"}"),
             Contains("a.jsonl:1: has no label, a whole number or a text"));
  CHECK_THAT(problem("a.csv", "path,label\n1.jpg,0.0\n2.jpg,10.0\n"),
             Contains("a.csv:2: has the label '0.0'; a class is a whole number"));
  for (const char* number : {"-1.5", "+2", "1e3", "5000000000", ".5"})
    CHECK_THAT(problem("a.csv", std::string("1.jpg,cat\n2.jpg,") + number + "\n"),
               Contains("a.csv:2: has the label '") && Contains(number));
  CHECK_THAT(problem("a.csv", std::string("\xFF\xFE"
                                          "1\0,\0",
                                          6)),
             Contains("a.csv:1: is UTF-16"));
  CHECK_THAT(problem("a.csv", std::string("1\0,\0", 4)), Contains("a.csv:1: is UTF-16"));
  CHECK_THAT(problem("a.jsonl", "{\"path\": \"x\", \"label\": 1}\n{\"path\": \"\xE9\"}\n"),
             Contains("a.jsonl:2: is not UTF-8; a list must be UTF-8"));
  CHECK_THAT(problem("a.csv", "1.jpg,0\nc\\2.jpg,1\n"),
             Contains("a.csv:2: there is no 'c\\2.jpg'; folders are parted by /, not by \\"));
  write_file(list / "c\\2.jpg", "");
  CHECK(problem("a.csv", "1.jpg,0\nc\\2.jpg,1\n").empty());
  write_file(list / "classes.txt", std::string("\xFF\xFE"
                                               "d\0",
                                               4));
  CHECK_THROWS_WITH(listed_classes(list / "classes.txt", {}), Contains("is UTF-16"));
  CHECK_THROWS_AS(list_table(list / "none.csv", {}, {}), UserError);
  CHECK(is_list_file("a.CSV"));
  CHECK_FALSE(is_list_file("a.txt"));
}

TEST_CASE("a header is not taken for a sample", "[data]") {
  const List list;
  CHECK(list.read("a.csv", "path, label\n1.jpg,3\n") == Names{"1.jpg=3"});
  CHECK(list.read("a.tsv", " File \tclass\n1.jpg\t3\n") == Names{"1.jpg=3"});
  const auto problem = [&](const std::string& text) -> std::string {
    try {
      list.read("a.csv", text);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* header : {"id,label", "Id, Label"})
    CHECK_THAT(problem(std::string(header) + "\n1.jpg,cat\n"),
               Contains("a.csv:1: no column of paths (path, file, ...)") &&
                   Contains("the columns: ") && Contains("; path says which one it is"));
  for (const char* header : {"Image,Id", "file_name,species"})
    CHECK_THAT(problem(std::string(header) + "\n1.jpg,cat\n"),
               Contains("a.csv:1: no column of labels (label, class, ...)") &&
                   Contains("; label says which one it is"));
  CHECK_THAT(problem("img_name,breed\n1.jpg,pug\n2.jpg,beagle\n"),
             Contains("a.csv:1: 'img_name, breed' is unlike all lines below it"));
  CHECK_THAT(problem("id,level\n10_left,0\n10_right,2\n"),
             Contains("a.csv:1: 'id, level' is unlike all lines below it"));
  const std::string ids = "0a1,pug\n0a2,beagle\n0a3,pug\n0a4,beagle\n";
  CHECK_THAT(problem("id,breed\n" + ids),
             Contains("a.csv:1: 'id, breed' is unlike all lines below it"));

  // What may well be a sample is one.
  CHECK(problem("id,pug\n" + ids).empty());                  // its label occurs again
  CHECK(problem("i0,breed\n" + ids).empty());                // a digit
  CHECK(problem("in/id,breed\n" + ids).empty());             // a folder
  CHECK(problem("id,breed\n" + ids + "5,x\n").empty());      // another label occurs once
  CHECK(problem("id,breed\n" + ids + "rex,pug\n").empty());  // another word
  CHECK(list.read("a.csv", "a.jpg,class\nb.jpg,file\n") ==
        Names{"a.jpg=0", "b.jpg=1", "class", "file"});
  CHECK(list.read("a.csv", "a.jpg,x\nb.jpg,1\nc.jpg,2\n").size() == 6);
  CHECK(list.read("a.csv", "a,x\nb,y\nc.jpg,z\n").size() == 6);
  CHECK(list.read("a.csv", "10_left,0\n10_right,1\n") == Names{"10_left=0", "10_right=1"});
  CHECK(list.read("a.csv", "x,y\n") == Names{"x=0", "y"});
}

TEST_CASE("the files of a list are looked for, and each that is not there told by its line",
          "[data]") {
  const List list;
  for (const char* name : {"in/1.jpg", "in/sub/2.jpg", "in/3.jpg"}) write_file(list / name, "");
  const std::string root = (list / "in/").string();
  const auto table = [&](const std::string& text, bool required = true) {
    write_file(list / "a.csv", text);
    return SampleTable(
        list_table(list / "a.csv", {}, {}, ListedFiles{.root = root, .required = required})
            .bytes());
  };
  const auto problems = [&](const std::string& text) -> Names {
    try {
      table(text);
    } catch (const UserError& error) {
      return error.problems();
    }
    return {};
  };
  CHECK(table("1.jpg,a\n" + root + "3.jpg,b\n").watched() == 2);
  write_file(list / "in/c\\4.jpg", "");
  CHECK(table("1.jpg,a\nc\\4.jpg,b\n").size() == 2);
  const auto missing = problems("1.jpg,a\n\n4.jpg,b\nsub/2.jpg,b\nsub,a\n");
  REQUIRE(missing.size() == 2);
  CHECK_THAT(missing[0], Contains("a.csv:3: there is no file '" + root + "4.jpg'"));
  CHECK_THAT(missing[1], Contains("a.csv:5: there is no file '" + root + "sub'"));
  CHECK(table("1.jpg,a\n4.jpg,b\n", /*required=*/false).size() == 2);

  const auto elsewhere = problems("2.jpg,a\n4.jpg,b\n");
  REQUIRE(elsewhere.size() == 3);
  CHECK_THAT(elsewhere[2], Contains("none of its files is there, 2 in all; images_dir names"));
  std::string all = "9.jpg,a\n3.jpg,a\n";
  for (int i = 10; i < 200; ++i) all += std::to_string(i) + ".jpg,a\n";
  const auto many = problems(all);
  CHECK(many.size() == 101);
  CHECK_THAT(many.back(), Contains("91 more of its files are not there"));
}

TEST_CASE("the paths of a list may leave out the ending of its files", "[data]") {
  const List list;
  for (const char* name : {"in/1.png", "in/2.png", "in/x.jpg"}) write_file(list / name, "");
  write_file(list / "a.csv", "1,a\n2,b\nx.jpg,a\n");
  const ListedFiles files{.root = (list / "in/").string()};
  const SampleTable table(list_table(list / "a.csv", {}, {}, files).bytes());
  CHECK(table.name(0) == "1.png");
  CHECK(table.name(1) == "2.png");
  CHECK(table.name(2) == "x.jpg");
  CHECK_THROWS_WITH(
      list_table(list / "a.csv", {}, {}, ListedFiles{.root = (list / "out/").string()}),
      Contains("did you mean images_dir: " + (list / "in").string() + "?"));
}

TEST_CASE("a list's files decide what ending is left out, and whether its first line is a header",
          "[data]") {
  const List list;
  for (const char* name : {"in/2.png", "in/4.png", "in/ape.png"}) write_file(list / name, "");
  const auto problems = [&](const std::string& text, bool required = true) -> Names {
    write_file(list / "a.csv", text);
    const ListedFiles files{.root = (list / "in/").string(), .required = required};
    try {
      list_table(list / "a.csv", {}, {}, files);
    } catch (const UserError& error) {
      return error.problems();
    }
    return {};
  };
  const auto missing = problems("1,a\n2,b\n3,b\n");
  REQUIRE(missing.size() == 2);
  CHECK_THAT(missing[0], Contains("a.csv:1: there is no file '") && Contains("in/1.png'"));
  CHECK_THAT(missing[1], Contains("a.csv:3: there is no file '") && Contains("in/3.png'"));

  for (const bool required : {true, false}) {
    const auto header = problems("id,breed\n2,pug\nape,beagle\n3,pug\n", required);
    REQUIRE(header.size() == 1);
    CHECK_THAT(header[0], Contains("a.csv:1: 'id, breed' is unlike all lines below it"));
  }
  CHECK(problems("ape,breed\n2,pug\n4,pug\n").empty());
  CHECK(problems("id,pug\n2,pug\n", /*required=*/false).empty());
  CHECK(problems("id.jpg,breed\n2,pug\n4,pug\n", /*required=*/false).empty());
}

TEST_CASE("columns of numbers are read in place of labels", "[data]") {
  const List list;
  const auto values = [&](const std::string& name, const std::string& text,
                          const Names& targets) -> std::vector<std::vector<float>> {
    write_file(list / name, text);
    const SampleTable table(list_table(list / name, {.targets = targets}, {}).bytes());
    std::vector<std::vector<float>> all;
    for (int64_t i = 0; i < table.size(); ++i) {
      all.emplace_back(static_cast<size_t>(table.num_values()));
      table.read_values(i, all.back());
    }
    return all;
  };
  using Rows = std::vector<std::vector<float>>;
  const Rows expected{{2, 1.5F}, {-1, 0.25F}};
  CHECK(values("a.csv", "path,area,label,b\n1.jpg,1.5,cat,2\n2.jpg, +0.25,dog,-1e0\n",
               {"b", "area"}) == expected);
  CHECK(values("a.csv", "path, area ,b\n1.jpg,1.5,2\n2.jpg,.25,-1\n", {"b", "area"}) == expected);
  CHECK(values("a.tsv", "area\tfile\tb\n1.5\t1.jpg\t2\n.25\t2.jpg\t-1\n", {"b", "area"}) ==
        expected);
  CHECK(values("a.jsonl",
               "{\"path\": \"1.jpg\", \"b\": 2, \"area\": 1.5}\n"
               "{\"b\": -1, \"area\": 0.25, \"path\": \"2.jpg\"}\n",
               {"b", "area"}) == expected);
  CHECK(values("a.jsonl", R"({"path": "1.jpg", "box": [1, 2.5], "is": true, "not": false})",
               {"box", "is", "not"}) == Rows{{1, 2.5F, 1, 0}});
  CHECK(values("a.csv", "path,box\n1.jpg,1 2.5\n2.jpg,\" 3 4 \"\n", {"box"}) ==
        Rows{{1, 2.5F}, {3, 4}});

  const auto named = [&](const std::string& name, const std::string& text,
                         const ListColumns& columns = {}) {
    write_file(list / name, text);
    return listed_columns(list / name, columns);
  };
  CHECK(named("a.csv", "area,file,b\n1.5,1.jpg,2\n") == Names{"area", "b"});
  CHECK(named("a.tsv", "area\tp\tb\n1.5\t1.jpg\t2\n", {.path = "p"}) == Names{"area", "b"});
  CHECK(named("a.jsonl", "{\"path\": \"1.jpg\", \"area\": 1}\n{}\n") == Names{"area"});
  CHECK(named("a.csv", "path,label,area,box\n1.jpg,cat,2,1 2\n") == Names{"area", "box"});
  CHECK(named("a.csv", "path,area\n").empty());
  CHECK(named("a.csv", "path, area\n1.jpg,2\n") == Names{"area"});
  CHECK(named("a.jsonl", R"({"path": "1.jpg", "label": "cat", "box": [1, 2]})") == Names{"box"});
  CHECK(named("a.csv", "1.jpg,0.5\n").empty());
  CHECK(named("a.csv", "\"1.jpg,0.5\n").empty());

  const auto problem = [&](const std::string& name, const std::string& text,
                           const Names& targets) -> std::string {
    try {
      values(name, text, targets);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string head = "path,a,b\n1.jpg,1,2\n";
  CHECK_THAT(problem("a.csv", head, {"c"}),
             Contains("a.csv:1: no column c; the first line names the columns: path, a, b"));
  CHECK_THAT(problem("a.csv", "x,a\n1.jpg,1\n", {"a"}), Contains("a.csv:1: no column of paths"));
  CHECK_THAT(problem("a.csv", "path,area\n1.jpg,1\n", {"aera"}), Contains("did you mean 'area'?"));
  CHECK_THAT(problem("a.jsonl", R"({"path": "1.jpg", "area": 1})", {"areas"}),
             Contains("a.jsonl:1: has no areas, a number; did you mean 'area'?"));
  CHECK_THAT(problem("a.csv", head + "2.jpg,1,two\n", {"a", "b"}),
             Contains("a.csv:3: column b: 'two' is no number"));
  CHECK_THAT(problem("a.csv", head + "2.jpg,,2\n", {"a"}),
             Contains("a.csv:3: column a: there is no number"));
  for (const char* wrong : {"nan", "inf", "1e40", "1e999", "1,5", "0x1"})
    CHECK_THAT(problem("a.tsv", std::string("path\ta\n1.jpg\t") + wrong, {"a"}),
               Contains("a.tsv:2: column a: '" + std::string(wrong) + "' is no number"));
  CHECK_THAT(problem("a.csv", head + "2.jpg,1 2,2\n", {"a"}),
             Contains("a.csv:3: has 2 numbers in a; the first sample has 1"));
  CHECK_THAT(problem("a.jsonl", R"({"path": "1.jpg", "a": null})", {"a"}),
             Contains("a.jsonl:1: column a: null is no number"));
  CHECK_THAT(problem("a.jsonl", R"({"path": "1.jpg", "a": []})", {"a"}),
             Contains("a.jsonl:1: column a: there is no number"));
  CHECK_THAT(problem("a.jsonl", R"({"path": "1.jpg"})", {"a"}),
             Contains("a.jsonl:1: has no a, a number"));
}

}  // namespace composer::list_file_test
