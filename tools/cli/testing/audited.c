// A program that does nothing; its dynamic loader would run an auditor.
int main(void) { return 0; }
