# Writes the header HEADER, which holds the bytes of the file SOURCE as CONSTANT. Run by
# bastion_embed_file.
file(READ ${SOURCE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
string(REPEAT "...." 24 line)
string(REGEX REPLACE "(${line})" "\\1\"\n\"" bytes "${bytes}")
file(WRITE ${HEADER} "#pragma once
namespace bastion {
inline constexpr char ${CONSTANT}[] =
\"${bytes}\";
}  // namespace bastion
")
