/* A call that may throw, inside try. */
extern "C" int shmem_checkpoint_all(void);
void refuse(int);
thread_local int depth;

struct Guard {
    ~Guard() { depth--; }
};

int main() {
    for (int i = 0; i < 3; i++) {
        Guard guard;
        try {
            refuse(shmem_checkpoint_all());
        } catch (int code) {
            return code;
        }
    }
    return 0;
}
