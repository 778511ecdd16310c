// The feedback log, newest first, with undo.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["undo", "older", "newer", "search"],
  computed: {
    content() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <section class="log" aria-label="Feedback log">
      <header><h2>Feedback</h2><span class="caption">{{ content.total.toLocaleString('en') }} {{ content.total === 1 ? 'record' : 'records' }}</span></header>
      <p v-if="!content.rows.length" class="empty">No feedback yet. Search for an item and mark results as alike or not alike.</p>
      <ol>
        <li v-for="row in content.rows" :key="row.seq" :data-seq="row.seq" :class="{ undone: !row.active }">
          <span class="seq">{{ row.seq }}</span>
          <span v-if="row.note" class="note">{{ row.note }}</span>
          <span v-else class="items">
            <template v-for="[sign, items] in [['', [row.item]], ['=', row.similar], ['≠', row.dissimilar]]">
              <b v-if="sign && items.length" :class="sign === '=' ? 'similar' : 'dissimilar'">{{ sign }}</b>
              <button v-for="item in items" :key="sign + item.key" type="button" class="small" :disabled="item.deleted"
                      :title="item.deleted ? item.key + ' (deleted)' : item.key"
                      :aria-label="'Search for items like ' + item.key" @click="$emit('search', item.key)"><Thumbnail :item="item"/></button>
            </template>
          </span>
          <time :datetime="new Date(1000 * row.time).toISOString()" :title="new Date(1000 * row.time).toLocaleString()">{{ shortTime(row.time) }}</time>
          <button v-if="!row.note && row.active" type="button" class="undo" :disabled="!content.may_undo" :title="content.may_undo ? 'Undo' : content.reason"
                  :aria-label="'Undo feedback ' + row.seq" @click="$emit('undo', row.seq)">Undo</button>
          <span v-else-if="!row.note" class="caption">undone</span>
        </li>
      </ol>
      <nav v-if="content.has_newer || content.has_older" aria-label="Pages of the log">
        <button type="button" class="quiet" :disabled="!content.has_newer" @click="$emit('newer')">Newer</button>
        <button type="button" class="quiet" :disabled="!content.has_older" @click="$emit('older')">Older</button>
      </nav>
    </section>`,
  methods: {
    shortTime(time) {
      const then = new Date(1000 * time);
      const today = then.toDateString() === new Date().toDateString();
      return today
        ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
        : then.toLocaleDateString([], { day: "numeric", month: "short" });
    },
  },
};
