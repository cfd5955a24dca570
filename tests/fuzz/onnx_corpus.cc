/// Writes the seed models into a folder: onnx_corpus FOLDER

#include <filesystem>
#include <fstream>
#include <iostream>

#include "onnx_seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: onnx_corpus FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : tempera::fuzz::onnx_seeds()) {
    std::ofstream(folder / (name + ".onnx"), std::ios::binary) << bytes;
  }
}
