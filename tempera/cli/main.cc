#include "tempera/cli/command.h"

int main(int argc, char** argv) { return tempera::cli::run(argc, argv); }
