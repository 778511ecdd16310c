// Why something cannot be said: what was said before, link by link.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["undo", "leave"],
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <section v-if="d.pair" class="chain" role="alertdialog" aria-labelledby="chain-title" aria-describedby="chain-why">
      <h2 id="chain-title">That contradicts what was said before</h2>
      <p class="claim"><span class="over">You say</span>
        <span class="link"><i class="small"><Thumbnail :item="d.pair.first"/></i><em>{{ d.pair.first.key }}</em>
          <b :class="d.pair.same ? 'alike' : 'unlike'">{{ d.pair.same ? '= is like' : '≠ is not like' }}</b>
          <i class="small"><Thumbnail :item="d.pair.second"/></i><em>{{ d.pair.second.key }}</em></span></p>
      <p id="chain-why">But it follows from feedback that {{ d.pair.same ? 'they are not alike' : 'they are alike' }}:</p>
      <ol>
        <li v-for="(link, at) in d.links" :key="at">
          <span class="link"><i class="small"><Thumbnail :item="link.first"/></i><em>{{ link.first.key }}</em>
            <b :class="link.same ? 'alike' : 'unlike'">{{ link.same ? '= is like' : '≠ is not like' }}</b>
            <i class="small"><Thumbnail :item="link.second"/></i><em>{{ link.second.key }}</em></span>
          <span v-if="link.seq === null" class="over">also said now</span>
          <button v-else type="button" class="undo" :aria-label="'Undo feedback ' + link.seq" @click="$emit('undo', link.seq)">
            Undo {{ link.seq }}</button>
        </li>
      </ol>
      <p class="hint">Undoing one of them lets yours be said in its place. Otherwise nothing changes.</p>
      <button type="button" class="quiet" @click="$emit('leave')">Leave it as it was</button>
    </section>`,
};
