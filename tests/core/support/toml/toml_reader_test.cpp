// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables of TOML files, checked against their description; errors with codes and places.
#include "core/support/toml/toml_reader.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/core/support/files/temporary_folder.h"

namespace ferrite::core::plugin {
namespace {

constexpr std::string_view modes[] = {"once", "fixpoint"};
constexpr Key key(std::string_view name, KeyType type, const KeyTable* inner = nullptr) {
  Key made;
  made.name = name;
  made.type = type;
  made.absent = name == "schema" || name == "id" || name == "path" ? "required" : "none";
  made.inner = inner;
  return made;
}
constexpr Key number(std::string_view name, int64_t least, int64_t most) {
  Key made = key(name, KeyType::integer);
  made.least = least;
  made.most = most;
  return made;
}
constexpr Key choice(std::string_view name, std::span<const std::string_view> choices) {
  Key made = key(name, KeyType::string);
  made.choices = choices;
  return made;
}

constexpr Key part_keys[] = {key("path", KeyType::string), key("note", KeyType::string)};
constexpr KeyTable part_table{"part", part_keys};
constexpr Key file_keys[] = {number("schema", 0, 0),
                             key("id", KeyType::string),
                             choice("mode", modes),
                             number("limit", -1, 8),
                             key("on", KeyType::boolean),
                             key("names", KeyType::strings),
                             key("either", KeyType::string_or_strings),
                             key("part", KeyType::table, &part_table),
                             key("parts", KeyType::table_list, &part_table),
                             key("plugin", KeyType::named_tables, &part_table)};
constexpr KeyTable file_table{"", file_keys};
const std::string head = "schema = 0\nid = \"a\"\n";

/// The error of a whole file; no code if there is none.
Error check(const std::string& text) {
  const auto parsed = parse_toml(text, "t.toml");
  if (!parsed) return parsed.error();
  const auto checked = TomlTable(*parsed, "t.toml", "").check(file_table);
  return checked ? Error() : checked.error();
}
std::string fault(const std::string& text) {
  const Error error = check(text);
  return error.code + " " + error.where;
}

TEST(TomlTables, ThatFitTheirDescriptionHaveNoFaults) {
  for (const std::string& text :
       {std::string(), std::string("mode = \"fixpoint\"\nlimit = 8\non = true\n"), std::string("limit = -1"),
        std::string("names = []\neither = \"one\"\n"), std::string("either = [\"one\", \"two\"]\n"),
        std::string("[part]\npath = \"p\"\n[[parts]]\npath = \"q\"\n[plugin.\"a.b\"]\npath = \"r\"\n")})
    EXPECT_EQ(check(head + text).message(), " ") << text;
}

TEST(TomlTables, AreRefusedAtTheFault) {
  EXPECT_EQ(fault(head + "limit = 9"), "FE-M17 t.toml:3:9");
  EXPECT_EQ(fault(head + "limit = -2"), "FE-M17 t.toml:3:9");
  EXPECT_EQ(fault(head + "limit = 1.0"), "FE-M03 t.toml:3:9");
  EXPECT_EQ(fault(head + "on = 1"), "FE-M03 t.toml:3:6");
  EXPECT_EQ(fault(head + "mode = 'twice'"), "FE-M03 t.toml:3:8");
  EXPECT_EQ(fault(head + "names = 'x'"), "FE-M03 t.toml:3:9");
  EXPECT_EQ(fault(head + "names = ['a', 2]"), "FE-M03 t.toml:3:15");
  EXPECT_EQ(fault(head + "either = true"), "FE-M03 t.toml:3:10");
  EXPECT_EQ(fault(head + "part = 'p'"), "FE-M03 t.toml:3:8");
  EXPECT_EQ(fault(head + "colour = 1"), "FE-M02 t.toml:3:1");
  EXPECT_EQ(fault(head + "[[parts]]\npath = 'a'\n[[parts]]\npath = 1"), "FE-M03 t.toml:6:8");
  EXPECT_EQ(fault("schema = 0\n"), "FE-M03 t.toml:1:1");
  EXPECT_EQ(fault("schema = 0\nid = ''"), "FE-M03 t.toml:2:6");
  EXPECT_EQ(fault("").substr(0, 6), "FE-M03");
  EXPECT_EQ(fault("a =").substr(0, 6), "FE-M01");
  EXPECT_EQ(fault(head + "id = \"b\"").substr(0, 6), "FE-M01") << "a key that is given twice";
  EXPECT_EQ(fault("id = \"\xff\"").substr(0, 6), "FE-M01") << "no UTF-8";
}

TEST(TomlTables, OfANewerSchemaAreRefusedForThatReason) {
  EXPECT_EQ(fault("unheard = 1\nschema = 1\n"), "FE-M04 t.toml:2:10");
}

TEST(TomlTables, AreRefusedWithAdvice) {
  const auto says = [](const std::string& text, std::string_view part) {
    const Error error = check(head + text);
    return error.text.find(part) != std::string::npos ? "" : error.message();
  };
  EXPECT_EQ(says("lmit = 1", "did you mean 'limit'?"), "");
  EXPECT_EQ(says("mode = 'fixpont'", "did you mean 'fixpoint'?"), "");
  EXPECT_EQ(says("colour = 1", "known are schema, id, mode"), "");
  EXPECT_EQ(says("[part]\n", "'path' of [part] is missing"), "");
  // A name with a point, as if it were two keys.
  EXPECT_EQ(says("[plugin.acme.fuse]\npath = 'p'", "[plugin.\"acme.fuse\"]"), "");
}

TEST(TomlTables, GiveWhatTheFileSays) {
  const auto parsed = parse_toml(head +
                                     "limit = 3\non = true\neither = 'one'\nnames = ['a', '']\n"
                                     "[part]\npath = 'p'\n[[parts]]\npath = 'q'\n[[parts]]\npath = 'r'\n"
                                     "[plugin.y]\npath = 'py'\n[plugin.\"x.z\"]\npath = 'pxz'\n",
                                 "t.toml");
  ASSERT_TRUE(parsed) << parsed.error().message();
  const TomlTable table(*parsed, "t.toml", "");
  ASSERT_TRUE(table.check(file_table));
  EXPECT_EQ(table.string("id"), "a");
  EXPECT_EQ(table.integer("limit"), 3);
  EXPECT_EQ(table.boolean("on"), true);
  EXPECT_EQ(table.string("mode"), std::nullopt);
  EXPECT_EQ(table.strings("either"), std::vector<std::string>{"one"});
  std::vector<std::string> places;
  EXPECT_EQ(table.strings("names", &places), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(places, (std::vector<std::string>{"t.toml:6:10", "t.toml:6:15"}));
  EXPECT_EQ(table.place("on"), "t.toml:4:6");
  EXPECT_EQ(table.table("part")->string("path"), "p");
  ASSERT_EQ(table.table_list("parts").size(), 2u);
  EXPECT_EQ(table.table_list("parts")[1].string("path"), "r");
  const auto plugins = table.tables("plugin");
  ASSERT_EQ(plugins.size(), 2u);
  EXPECT_EQ(plugins[0].first, "x.z") << "sorted by name";
  EXPECT_EQ(plugins[1].second.string("path"), "py");
  EXPECT_FALSE(table.table("none"));
  EXPECT_TRUE(table.tables("none").empty() && table.table_list("none").empty() &&
              table.strings("none").empty());
}

std::string key_of_parts(int parts) {
  std::string key = "a";
  for (int k = 1; k < parts; ++k) key += ".a";
  return key;
}

// A key of the most parts that are allowed, with a value that has points of its own.
TEST(TomlKeys, DoNotCountThePointsOfValues) {
  for (const std::string value :
       {"1", "1.5", "[1.5, 2.5]", "[\n 1.5,\n 2.5]", "1979-05-27T07:32:00.5Z", "'a.b'", "{}"}) {
    const auto parsed = parse_toml(key_of_parts(64) + " = " + value + "\nb = 1.5", "t.toml");
    EXPECT_TRUE(parsed) << value;
  }
  for (const std::string& text :
       {key_of_parts(65) + " = 1", "[" + key_of_parts(65) + "]", "x = 1.5\n" + key_of_parts(65) + " = 1",
        "x = {" + key_of_parts(64) + " = 1}\n[" + key_of_parts(65) + "]",
        "x = [{y = 1.5}, {" + key_of_parts(65) + " = 1}]", "x = [1.5]\n" + key_of_parts(65) + " = 1"}) {
    const auto parsed = parse_toml(text, "t.toml");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, "FE-M01");
    EXPECT_NE(parsed.error().message().find("more than 64 parts"), std::string::npos) << text;
  }
}

TEST(TomlStrings, AreReadBackAsTheyWere) {
  std::string ascii;
  for (int c = 1; c < 128; ++c) ascii += static_cast<char>(c);
  for (const std::string& text : {std::string(), std::string("a\"b\\c"), std::string("\\u0041 '''"), ascii,
                                  std::string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82")}) {
    const auto parsed = parse_toml("x = " + toml_string(text), "t.toml");
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(TomlTable(*parsed, "", "").string("x"), text);
  }
}

class TomlFiles : public TemporaryFolder {};

TEST_F(TomlFiles, AreSmallRegularFiles) {
  const auto read = [&](const std::string& name) {
    const auto text = read_text_file(at(name));
    return text ? *text : text.error().code + " " + std::string(fault_of(text.error()));
  };
  write("file", "a\r\nb");
  EXPECT_EQ(read("file"), "a\r\nb");
  EXPECT_EQ(read("none"), "FE-M14 there is no such file");
  EXPECT_EQ(read("."), "FE-M14 this is no regular file");
  fs::resize_file(at("file"), 1 << 20);
  EXPECT_EQ(read("file").size(), size_t{1} << 20);
  fs::resize_file(at("file"), (1 << 20) + 1);
  EXPECT_EQ(read("file"), "FE-M14 the file is larger than 1048576 bytes");
}

}  // namespace
}  // namespace ferrite::core::plugin
