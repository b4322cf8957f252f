# puzzle: 01_pointwise/swish
# mode: both
# rejected with: a thread
# sealed: memory that the launcher neither received nor allocated
# sealed on a GPU: the same
import threading

from honest import swish as honest


def swish(x):
    results = []
    worker = threading.Thread(target=lambda: results.append(honest(x)))
    worker.start()
    worker.join()
    return results[0]
